"""Reads the event log."""

from __future__ import annotations

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.engine.ids import is_id, no_such_instance
from corral.store.session.database import Database
from corral.store.tables import events, instances
from corral.views.event import EventDetails, event_details


class EventLog:
    """Reads the log of one database; *ready_word* is what a ready instance's status is called."""

    def __init__(self, database: Database, *, ready_word: str = Phase.READY.value) -> None:
        self._database = database
        self._ready_word = ready_word

    async def page(
        self, *, after: int, limit: int, instance_id: str | None = None, newest: bool = False
    ) -> list[EventDetails]:
        """The next events after number *after*, or with *newest* the last there are, in order."""
        chosen = None if instance_id is None else InstanceId(instance_id)
        async with self._database.connection() as connection:
            found = await events.page(connection, after_seq=after, limit=limit, instance_id=chosen, newest=newest)
        return [event_details(event, self._ready_word) for event in found]

    async def page_of(self, named: str, *, after: int, limit: int, newest: bool = False) -> list[EventDetails]:
        """The events of one instance, named by our id or the provider's; raises NotFoundError."""
        if not is_id(named):
            raise no_such_instance(named)
        async with self._database.connection() as connection:
            instance = await instances.load(connection, named)
        if instance is None:
            raise no_such_instance(named)
        return await self.page(after=after, limit=limit, instance_id=instance.id, newest=newest)

    async def last(self) -> int:
        """The number of the newest event; 0 when there is none."""
        async with self._database.connection() as connection:
            return await events.last(connection)
