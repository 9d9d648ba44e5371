"""
The locks of the instances that this process reconciles.

One database session holds them all, so that reconciles which begin or end at the same time share a round trip, and a
reconcile that waits for the provider occupies no connection. The session is borrowed from the pool while there are
locks. If it is lost, so are its locks: running reconciles continue, and their writes are refused if another process
changed the instance meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import ClassVar

from corral.base.log import log
from corral.domain.instance import InstanceId
from corral.engine.batcher import Batcher
from corral.store.session import instance_lock
from corral.store.session.database import Connection, Database, driver_errors
from corral.store.session.instance_lock import LockedInstance

_Outcome = LockedInstance | Exception | None


class InstanceLocks:
    """Takes and releases locks in groups."""

    _tasks: ClassVar[set[asyncio.Task[None]]] = set()
    """A loop keeps no task alive; without this, one could be collected before it has released."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held = set[InstanceId]()
        """By this process; a session could take a lock that it has once more."""
        self._released: list[InstanceId] = []
        """To be released with the next group, before that takes others."""
        self._batcher = Batcher[InstanceId | None, _Outcome](self._run)
        self._session: Connection | None = None
        self._borrowed = AsyncExitStack()

    async def acquire(self, instance_id: InstanceId) -> LockedInstance | None:
        """
        Take the lock and read the instance with its operation; None when another reconcile has the lock.

        Raises StoreUnavailableError, and the error of a record that cannot be read; then the lock is not held.
        """
        if instance_id in self._held:
            return None
        self._held.add(instance_id)
        try:
            outcome = await self._batcher.add(instance_id)
        except BaseException:  # if cancelled, the lock may have been taken
            self._drop(instance_id)
            self._release_later()
            raise
        if isinstance(outcome, Exception):
            await self.release(instance_id)
            raise outcome
        if outcome is None:
            self._held.discard(instance_id)
            await self._release()
        return outcome

    async def release(self, instance_id: InstanceId) -> None:
        """Release the lock, also if the caller is cancelled meanwhile; raises no error of the database."""
        self._drop(instance_id)
        await self._release()

    def _drop(self, instance_id: InstanceId) -> None:
        self._held.discard(instance_id)
        self._released.append(instance_id)

    async def _release(self) -> None:
        try:
            await self._batcher.add(None)
        except asyncio.CancelledError:
            self._release_later()
            raise
        except Exception as error:  # noqa: BLE001  # whatever it was, the session was closed, and its locks released
            log.warning("locks.lost", reason=repr(error))

    def _release_later(self) -> None:
        task = asyncio.create_task(self._release())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, wanted: Sequence[InstanceId | None]) -> list[_Outcome]:
        """Release what is to be released, then take the locks of *wanted*; None is a request for the former only."""
        ids = [instance_id for instance_id in wanted if instance_id is not None]
        released, self._released = self._released, []
        if not ids and self._session is None:
            return [None] * len(wanted)
        try:
            with driver_errors():
                session, is_new = await self._open()
                if released and not is_new:
                    await instance_lock.release(session, released)
                outcomes = iter(await instance_lock.acquire(session, ids) if ids else [])
        except BaseException:
            await self._close(ends_session=True)
            raise
        if not self._held and not self._released:
            await self._close()
        return [None if instance_id is None else next(outcomes) for instance_id in wanted]

    async def _open(self) -> tuple[Connection, bool]:
        """The session that holds the locks, and whether it is a new one without any."""
        if self._session is not None and not self._session.is_closed():
            return self._session, False
        await self._close()
        self._session = await self._borrowed.enter_async_context(self._database.connection())
        return self._session, True

    async def _close(self, *, ends_session: bool = False) -> None:
        """Return the connection to the pool; one that may have locks must be ended, which releases them."""
        session, self._session = self._session, None
        if session is not None and ends_session:
            session.terminate()
        await self._borrowed.aclose()
