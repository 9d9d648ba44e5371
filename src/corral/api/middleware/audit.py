"""
Sees every call that could change something, and has it written down before its answer is sent.

It stands between the edge and the server, so that it also sees what the edge and the framework refuse, and it reads
the outcome from the answer itself: no route has to remember to tell. One that wrote the line with the change says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from corral.api.middleware.auth import Identity
from corral.base.clock import Clock
from corral.domain.audit import AuditEntry
from corral.engine.auth.audit_log import AuditLog

if TYPE_CHECKING:
    from litestar.types import HTTPScope, Message, Send

LONGEST_PATH: Final = 300
WRITTEN: Final = "audit line written"
"""Is in a request's state when the line of its answer is committed."""


class _Error(msgspec.Struct):
    code: str = ""


class _RecordedOutcome(msgspec.Struct, rename="camel"):
    """What an answer says of its outcome."""

    instance_id: str | None = None
    error: _Error | None = None


_told = msgspec.json.Decoder(_RecordedOutcome)


@dataclass(slots=True, kw_only=True)
class AuditMiddleware:
    """A `send` that holds one answer back until its line is written."""

    trail: AuditLog
    clock: Clock
    scope: HTTPScope
    send: Send
    held: Message | None = None

    async def __call__(self, message: Message) -> None:
        """Pass *message* on; the beginning of the answer waits for the first of its body, which names the outcome."""
        if message["type"] == "http.response.start" and WRITTEN not in self.scope["state"]:
            self.held = message
            return
        if self.held is not None:
            start, self.held = cast("Any", self.held), None
            await self.trail.record(self._entry(start["status"], cast("Any", message).get("body", b"")))
            await self.send(start)
        await self.send(message)

    def _entry(self, status: int, body: bytes) -> AuditEntry:
        told = _read(body)
        named = cast("Any", self.scope).get("path_params", {}).get("instance_id")
        return entry(
            self.scope,
            at=self.clock.now(),
            status=status,
            instance_id=told.instance_id or (_plain(named) if isinstance(named, str) else None),
            error_code=None if told.error is None else told.error.code,
        )


def entry(
    scope: HTTPScope, *, at: datetime, status: int, instance_id: str | None, error_code: str | None = None
) -> AuditEntry:
    """The line of a request that is answered with *status*."""
    request = cast("Any", scope)
    identity: Identity | None = request["state"].get("identity")
    return AuditEntry(
        at=at,
        caller=None if identity is None else identity.caller,
        method=request["method"],
        route=request.get("path_template"),
        path=_plain(request["path"]),
        instance_id=instance_id,
        address="unknown" if identity is None else identity.address,
        status=status,
        error_code=error_code,
        request_id=request["state"]["ids"].request_id,
    )


def _read(body: bytes) -> _RecordedOutcome:
    try:
        return _told.decode(body)
    except msgspec.DecodeError:
        return _RecordedOutcome()


def _plain(text: str) -> str:
    """*text* as a line of a log can hold it: short, and of printable characters only."""
    short = text[:LONGEST_PATH]
    return short if short.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in short)
