"""
Notifications of changes to every process, by PostgreSQL's NOTIFY.

A notification has a topic and optionally a key, and no state: the receiver reads again. It is sent inside the
transaction of the change, so it is delivered on commit and never for a change that did not happen. A process that lost
its connection has missed an unknown number of them; so after every (re)connection the `on_gap` functions are called,
and everything cached must be dropped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Final

from corral.base.clock import Clock, is_set_within
from corral.base.log import log
from corral.domain.timing import delay
from corral.store.server.target import DatabaseTarget
from corral.store.session.connections import CONNECT_TIMEOUT_SECONDS, own_session
from corral.store.session.database import Connection

CHANNEL: Final = "corral_notices"
MOST_PAYLOAD_BYTES: Final = 7999
"""PostgreSQL's own limit."""
PULSE_SECONDS = 30.0
"""How often the connection is checked: a server that vanished silently is noticed after this long at most."""
LONG_LISTEN_SECONDS = 30.0
"""After listening for this long, the next lost connection counts as the first failure again."""


async def notify(connection: Connection, topic: str, key: str | None = None) -> None:
    """Notify every process when this connection's transaction commits."""
    payload = json.dumps({"topic": topic, "key": key}, ensure_ascii=False, separators=(",", ":"))
    if len(payload.encode()) > MOST_PAYLOAD_BYTES:
        raise ValueError(
            f"a notice of {len(payload)} characters on {topic!r} is too long: name the thing, not its state"
        )
    await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)


def notification(topic: str, key: str = "NULL") -> str:
    """The same as an SQL expression, for a statement that makes the change; *key* is SQL too."""
    return f"pg_notify('{CHANNEL}', json_build_object('topic', '{topic}', 'key', {key})::text)"


class Notifications:
    """The notifications of one database, for the subscribers in this process; their functions must be quick."""

    def __init__(self, target: DatabaseTarget, clock: Clock, *, application_name: str = CHANNEL) -> None:
        self._target = target
        self._application_name = application_name
        self._clock = clock
        self._subscribers: dict[str, list[Callable[[str | None], object]]] = {}
        self._after_gap: list[Callable[[], object]] = []
        self.listening = False
        """Whether a notification sent now would be received."""

    def subscribe(self, topic: str, on_notice: Callable[[str | None], object]) -> None:
        """Call *on_notice* with the key of every notification on *topic*."""
        self._subscribers.setdefault(topic, []).append(on_notice)

    def on_gap(self, after_gap: Callable[[], object]) -> None:
        """Call *after_gap* whenever notifications may have been missed."""
        self._after_gap.append(after_gap)

    async def run(self) -> None:
        """Listen until cancelled; reconnects when the database returns."""
        failures = 0
        while True:
            began = self._clock.monotonic()
            try:
                await self._listen()
                reason = "the connection was closed"
            except Exception as error:  # noqa: BLE001  # the outermost frame: whatever it was, listen again
                reason = repr(error)
            failures = 1 if self._clock.monotonic() - began > LONG_LISTEN_SECONDS else failures + 1
            log.warning("notices.lost", failures=failures, reason=reason)
            await self._clock.sleep(delay(failures, first=0.1, most=5.0))

    async def _listen(self) -> None:
        """Return or raise once the connection is lost."""
        lost = asyncio.Event()

        def on_end(_connection: object) -> None:
            lost.set()

        session = own_session(self._target, name=self._application_name, statement_seconds=CONNECT_TIMEOUT_SECONDS)
        async with session as connection:
            connection.add_termination_listener(on_end)
            await connection.add_listener(CHANNEL, self._receive)
            self.listening = True
            try:
                log.info("notices.listening")
                for after_gap in self._after_gap:
                    after_gap()
                while not await is_set_within(lost, PULSE_SECONDS, self._clock):
                    await connection.execute("SELECT 1")
            finally:
                self.listening = False

    def _receive(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        try:
            notice = json.loads(payload)
            topic, key = notice["topic"], notice["key"]
        except (ValueError, TypeError, KeyError):
            log.warning("notices.unreadable", payload=payload[:100])
            return
        for on_notice in self._subscribers.get(str(topic), ()):
            on_notice(None if key is None else str(key))
