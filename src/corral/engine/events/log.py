"""The log as it is shown: to readers of the API, on streams, and in webhooks, always in the same words."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.errors import NotFoundError
from corral.domain.events import Event, EventType
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.tables import Phase
from corral.domain.timestamps import iso
from corral.store.session.database import Database
from corral.store.tables import events, instances


class EventError(msgspec.Struct):
    """Why the instance is failed."""

    code: str
    message: str


class EventDetails(msgspec.Struct, rename="camel"):
    """One event."""

    id: Annotated[str, Meta(description="Unique everywhere, and the same in every delivery of this event.")]
    seq: Annotated[int, Meta(description="Its place in the one order of all events, which has no gaps.")]
    event: EventType
    instance_id: str
    novita_instance_id: str | None
    status: Annotated[str, Meta(description="The instance's status after the change.")]
    previous_status: str | None
    timestamp: str
    elapsed_time: Annotated[int | None, Meta(description="Milliseconds since its operation was asked for.")]
    operation_id: str
    reason: str
    error: EventError | None
    data: Annotated[dict[str, object], Meta(description="The instance's name, and where it is placed once it is.")]


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
        return [self.shown(event) for event in found]

    async def page_of(self, named: str, *, after: int, limit: int, newest: bool = False) -> list[EventDetails]:
        """The events of one instance, named by our id or the provider's; raises NotFoundError."""
        instance = None
        if named.isascii() and named.isprintable():  # no id is otherwise, and PostgreSQL takes no zero byte
            async with self._database.connection() as connection:
                instance = await instances.load(connection, named)
        if instance is None:
            raise NotFoundError(f"there is no instance {named[:100]!r}", code="INSTANCE_NOT_FOUND")
        return await self.page(after=after, limit=limit, instance_id=instance.id, newest=newest)

    async def last(self) -> int:
        """The number of the newest event; 0 when there is none."""
        async with self._database.connection() as connection:
            return await events.last(connection)

    def shown(self, event: Event) -> EventDetails:
        """*event* in public words."""
        since, failure, before = event.since_asked, event.failure, event.previous_phase
        return EventDetails(
            id=event.id,
            seq=event.seq,
            event=event.type,
            instance_id=event.instance_id,
            novita_instance_id=event.provider_id,
            status=self._word(event.phase),
            previous_status=None if before is None else self._word(before),
            timestamp=iso(event.at),
            elapsed_time=None if since is None else int(since / timedelta(milliseconds=1)),
            operation_id=event.operation_id,
            reason=event.reason,
            error=None if failure is None else EventError(code=failure.code, message=failure.message),
            data=dict(event.data),
        )

    def _word(self, phase: Phase) -> str:
        return self._ready_word if phase is Phase.READY else phase.value
