"""
No create is sent before a complete listing was compared with the records since this process started.

A database can be older than the account: restored from a backup, or taken over by a server that had not received the
last commits. Then a request that is recorded as not created may have a machine, and a create call would make a second
one. The first listing shows that machine, and its record gets it (`domain/observation/matching.py`).

Some accounts never have a right listing: thousands of machines that come and go while it is read, or a machine that the
list never shows. There, after a while, a lookup by name allows single creates (`unmade.py`).

The leader numbers its listings in the database (`store/tables/last_listing.py`), so that every process knows when one
was compared.
What counts is a listing that began after this process first used the database server it uses now: a restored database
carries the numbers of its past, and a server that was restarted may have lost commits while this process went on.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from corral.base.clock import Clock
from corral.base.telemetry import log
from corral.domain.errors import CloudTransientError
from corral.store.session.database import Connection
from corral.store.tables import last_listing

FIRST_PAUSE_SECONDS: Final = 0.25
"""How soon a create that waits for the listing is tried again. Shorter costs a query more often; longer delays what
was requested just before the first listing, which usually takes less than a second."""
LAST_PAUSE_SECONDS: Final = 5.0
"""The pause grows with the wait, up to this: the provider may be unreachable for hours while thousands wait."""

WARN_AFTER_SECONDS: Final = 5.0
"""A listing usually takes less; after this long the log and the instances say that creates wait for it. Shorter, and
every start of a busy service causes events; longer, and a provider that cannot be listed is noticed later."""


STUCK_AFTER_SECONDS: Final = 30.0
"""After this long without a right listing, single creates are allowed by a lookup of their names. Shorter, and every
start costs such lookups, also against a list that lags; longer, and creates wait where no listing is ever right."""


class CreateGate:
    """Whether this process may send creates."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._server: datetime | None = None
        self._begun = 0
        self._since = 0.0
        self._is_open = False
        self._has_warned = False

    async def start(self, connection: Connection) -> None:
        """Count listings from here on; called at the start of the process, so that the first one counts."""
        now = await last_listing.listings(connection)
        self._server, self._begun = now.server, now.begun
        self._since, self._is_open, self._has_warned = self._clock.monotonic(), False, False

    @property
    def is_slow(self) -> bool:
        """Whether creates have waited for so long that their instances should say why."""
        return not self._is_open and self._clock.monotonic() - self._since >= WARN_AFTER_SECONDS

    @property
    def is_stuck(self) -> bool:
        """Whether listings have failed for so long that single creates may go by other evidence."""
        return not self._is_open and self._clock.monotonic() - self._since >= STUCK_AFTER_SECONDS

    async def check(self, connection: Connection, server: datetime | None) -> None:
        """
        Return if a create may be sent by a pass whose connection leads to the database server started at *server*.

        Raises CloudTransientError, with the time after which to try again, if no listing was compared yet.
        """
        if self._is_open and server is not None and server == self._server:
            return
        now = await last_listing.listings(connection)
        if now.server != self._server:
            await self.start(connection)
        elif now.compared > self._begun:
            self._is_open = True
            return
        waited = self._clock.monotonic() - self._since
        if waited >= WARN_AFTER_SECONDS and not self._has_warned:
            self._has_warned = True
            log.warning("create.waits_for_listing", seconds=round(waited))
        raise CloudTransientError(
            "no complete listing of the provider account was compared with the records since the service started; "
            "nothing is created before that",
            retry_after_seconds=min(max(waited / 2, FIRST_PAUSE_SECONDS), LAST_PAUSE_SECONDS),
        )
