"""
No create is sent before a complete listing was compared with the records since this process started.

A database can be older than the account: restored from a backup, or taken over by a server that had not received the
last commits. Then a request that is recorded as not created may have a machine, and a create call would make a second
one. The first listing shows that machine, and its record gets it (`domain/observation/matching.py`).

Some accounts never have a right listing: thousands of machines that come and go while it is read, or a machine that the
list never shows. There, after a while, a lookup by name allows single creates (`uncreated.py`).

The leader numbers its listings in the database (`store/installation/last_listing.py`), so that every process
knows when one was compared.
What counts is a listing that began after this process first used the database server it uses now: a restored database
has the numbers of its past, and a server that was restarted may have lost commits while this process kept running.

A list may lag. That matters only if the database was restored, copied or promoted (`store/installation/continuity.py`):
a machine made right before may be missing in the first listing. Requests that the database had then, without a machine,
wait for a listing that began after the settle time; later requests cannot have a machine, and do not wait.

Such a database may also lack an extension of a lease. Notices that it has are withdrawn and given again, so that no
instance ends without a new notice and its grace period. The same is done if the last listing is long ago: then the
service was away, or the files of its database were put back.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.domain.errors import CloudTransientError
from corral.domain.instance import InstanceId
from corral.domain.leases.decide import LATE
from corral.domain.lifecycle.policy import Policy
from corral.store.installation import continuity, last_listing
from corral.store.installation.last_listing import Listings
from corral.store.session.database import Connection
from corral.store.tables import leases

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

    def __init__(self, clock: Clock, policy: Policy, *, place: str = "") -> None:
        """*place* identifies the files of an embedded database, so that a copy of them is recognised."""
        self._clock = clock
        self._place = place
        # A create call that the database has forgotten may still be under way.
        self._settle_seconds = (policy.settle + policy.longest_create).total_seconds()
        self._server: datetime | None = None
        self._identity = ""
        self._settling: frozenset[InstanceId] = frozenset()
        """Requests that may have a machine which no listing shows yet, until the settle time is over."""
        self._settled_at = 0.0
        self._begun = 0
        self._since = 0.0
        self._is_open = False
        self._has_warned = False

    async def start(self, connection: Connection) -> None:
        """Count listings from here on; called at the start of the process, so that the first one counts."""
        now = await last_listing.listings(connection)
        identity = await continuity.identity(connection, self._place)
        settling: frozenset[InstanceId] = frozenset()
        is_continued = await continuity.is_continued(connection, identity)
        if not is_continued:
            settling = await continuity.without_machine(connection)
        if not is_continued or await _was_away(connection):
            await self._withdraw_notices(connection)
        if settling:
            log.warning("create.waits_for_settling", seconds=round(self._settle_seconds), creates=len(settling))
        else:
            await continuity.record(connection, identity, now.server)
        # Set last: after an error in one of these queries the next check starts again.
        self._server, self._identity, self._settling = now.server, identity, settling
        self._settled_at = self._clock.monotonic() + self._settle_seconds
        self._count_from(now)

    async def note_server(self, connection: Connection, server: datetime | None) -> None:
        """Start again if *server*, as for `check`, is another one than this process has used so far."""
        if server is not None and server != self._server:
            await self.start(connection)

    def is_settling(self, instance_id: InstanceId) -> bool:
        """Whether no listing counts yet for this request, because the database may be older than the account."""
        return instance_id in self._settling

    @property
    def is_slow(self) -> bool:
        """Whether creates have waited for so long that their instances should say why."""
        return not self._is_open and self._clock.monotonic() - self._since >= WARN_AFTER_SECONDS

    @property
    def is_stuck(self) -> bool:
        """Whether listings have failed for so long that single creates may go by other evidence."""
        return not self._is_open and self._clock.monotonic() - self._since >= STUCK_AFTER_SECONDS

    def is_open(self, server: datetime | None) -> bool:
        """Whether every create may be sent, as far as this process knows; *server* as for `check`."""
        return self._is_open and not self._settling and server is not None and server == self._server

    async def check(self, connection: Connection, server: datetime | None, instance_id: InstanceId) -> None:
        """
        Return if a create may be sent; *server* is the start time of the database server that the caller uses.

        Raises CloudTransientError, with the time after which to try again, if no listing was compared yet.
        """
        if self.is_open(server):
            return
        now = await last_listing.listings(connection)
        if now.server != self._server:
            await self.start(connection)
        if self.is_settling(instance_id):
            await self._check_settled(connection, now)
        elif self._settling and self._clock.monotonic() >= self._settled_at:
            self._settling &= await continuity.without_machine(connection)
        if now.compared > self._begun:
            if not self._settling:
                await continuity.record(connection, self._identity, now.server)
            self._is_open = True
            return
        await last_listing.request(connection)  # at rest the leader would list only after the idle interval
        waited = self._clock.monotonic() - self._since
        if waited >= WARN_AFTER_SECONDS and not self._has_warned:
            self._has_warned = True
            log.warning("create.waits_for_listing", seconds=round(waited))
        raise CloudTransientError(
            "no complete listing of the provider account was compared with the records since the service started; "
            "nothing is created before that",
            retry_after_seconds=min(max(waited / 2, FIRST_PAUSE_SECONDS), LAST_PAUSE_SECONDS),
        )

    async def _check_settled(self, connection: Connection, now: Listings) -> None:
        """Raise CloudTransientError before the settle time is over; then count listings that begin from *now* on."""
        left = self._settled_at - self._clock.monotonic()
        # Another process, which started earlier, may have waited and recorded the identity.
        if left > 0 and not await continuity.is_continued(connection, self._identity):
            raise CloudTransientError(
                "the database may be older than the provider account: it was restored, copied, taken over by another "
                "server, or upgraded from a release that did not record its identity; what was requested before is "
                f"created after a listing that begins {self._settle_seconds:.0f} s after the start and shows no "
                "machine of it",
                retry_after_seconds=left,
            )
        self._settling = frozenset()
        self._count_from(now)
        self._identity = await continuity.identity(connection, self._place)  # the server may have been promoted since

    async def _withdraw_notices(self, connection: Connection) -> None:
        """Before the identity is recorded, so that a process that ends here leaves it to the next one."""
        if found := await leases.withdraw_notices(connection, self._clock.now()):
            log.warning("leases.notices_withdrawn", instances=found)

    def _count_from(self, now: Listings) -> None:
        self._begun = now.begun
        self._since, self._is_open, self._has_warned = self._clock.monotonic(), False, False


async def _was_away(connection: Connection) -> bool:
    """Whether no listing was recorded for so long that users may have been unable to extend a lease."""
    last = await last_listing.last(connection)
    return last.age is not None and last.age > LATE + (last.every or timedelta(0))
