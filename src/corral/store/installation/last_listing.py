"""
Listings of the whole account: when one was last read, and how many were begun and compared with the records.

The numbers alone do not show whether the database still has the rows that the listing was compared with: a restored or
replaced server has older ones. So a listing counts only if the server was not restarted since the listing began, which
a restore, a failover and a point-in-time recovery all imply.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.domain.costs.meter import CLOCK_SET_BACK
from corral.store.session.database import Connection
from corral.store.session.notifications import notify

TOPIC: Final = "listing_requested"
"""The topic of the notification that a create waits for a listing of the whole account."""

_LAST = """
SELECT at, CASE WHEN at IS NOT NULL THEN now() - coalesce(noted_at, at) END AS age, every FROM corral_last_look
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastListing:
    """The last complete listing."""

    at: datetime | None
    """When it began, by the clock of the process that read it; None: there was none yet."""
    age: timedelta | None
    """How long ago it was recorded, by the database's clock."""
    every: timedelta | None
    """The leader's interval, once known; longer than the setting with a small rate limit and a large account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingStart:
    """A listing that was begun."""

    number: int
    server: datetime
    """When the database server that counted it was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listings:
    """How many listings were begun and compared."""

    begun: int
    compared: int
    server: datetime


async def request(connection: Connection) -> None:
    """Have the leader, in whichever process it is, list the whole account soon."""
    await notify(connection, TOPIC)


async def begin(connection: Connection) -> ListingStart:
    """Count a listing that is about to be read."""
    counted = (
        "UPDATE corral_last_look SET begun = begun + 1 RETURNING begun AS number, pg_postmaster_start_time() AS server"
    )
    return ListingStart(**await connection.fetchrow(counted))


async def remember(connection: Connection, at: datetime, *, confirmed_at: datetime | None = None) -> None:
    """
    A complete listing was read at *at*; if it began at *confirmed_at*, it showed every machine as recorded.

    Write the usage that the listing changes before this: what it does not change is confirmed by it. A time from before
    the clock was set back confirms nothing.
    """
    await connection.execute(
        "UPDATE corral_last_look SET at = $1, noted_at = now(), confirmed_at = GREATEST("
        " CASE WHEN confirmed_at <= $1::timestamptz + $3::interval THEN confirmed_at END, $2)",
        at,
        confirmed_at,
        CLOCK_SET_BACK,
    )


async def announce(connection: Connection, every: timedelta) -> None:
    """The leader will list again after *every*; written only when it changed."""
    await connection.execute("UPDATE corral_last_look SET every = $1 WHERE every IS DISTINCT FROM $1", every)


async def last(connection: Connection) -> LastListing:
    """The last complete listing, by any process."""
    return LastListing(**await connection.fetchrow(_LAST))


async def compared(connection: Connection, listing: ListingStart) -> None:
    """*listing* was complete and right, and this transaction compared it with the records."""
    await connection.execute(
        "UPDATE corral_last_look SET compared = greatest(compared, $1) WHERE pg_postmaster_start_time() = $2",
        listing.number,
        listing.server,
    )


async def listings(connection: Connection) -> Listings:
    """The numbers as they are now."""
    read = "SELECT begun, compared, pg_postmaster_start_time() AS server FROM corral_last_look"
    return Listings(**await connection.fetchrow(read))
