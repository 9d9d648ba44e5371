"""
The audit line of every request that could change something, or that reads passwords.

A route that changes the database gives the line (`RequestContext.success_line`) to the command, which writes it in the
transaction of the change, and then sets `is_audited`. Every other response, such as a refusal, waits here until its
line is committed. The middleware is outside the edge, so it also sees what the edge and the framework refuse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import msgspec

from corral.api.http.context import RequestContext, printable
from corral.domain.audit import AuditEntry
from corral.engine.auth.audit_log import AuditLog

if TYPE_CHECKING:
    from litestar.types import Message, Send


class _Error(msgspec.Struct):
    code: str = ""


class _RecordedOutcome(msgspec.Struct, rename="camel"):
    """The parts of a response that the audit line needs."""

    instance_id: str | None = None
    error: _Error | None = None


_decoder = msgspec.json.Decoder(_RecordedOutcome)


@dataclass(slots=True, kw_only=True)
class AuditMiddleware:
    """A `send` that delays a response until its audit line is written."""

    trail: AuditLog
    context: RequestContext
    send: Send
    held: Message | None = None

    async def __call__(self, message: Message) -> None:
        """Pass *message* on; the start waits for the first piece of the body, which has the outcome."""
        if message["type"] == "http.response.start" and not self.context.is_audited:
            self.held = message
            return
        if self.held is not None:
            start, self.held = cast("Any", self.held), None
            await self.trail.record(self._entry(start["status"], cast("Any", message).get("body", b"")))
            await self.send(start)
        await self.send(message)

    def _entry(self, status: int, body: bytes) -> AuditEntry:
        outcome = _read(body)
        named = cast("Any", self.context.scope).get("path_params", {}).get("instance_id")
        return self.context.audit_entry(
            at=self.context.clock.now(),
            status=status,
            instance_id=outcome.instance_id or (printable(named) if isinstance(named, str) else None),
            error_code=None if outcome.error is None else outcome.error.code,
        )


def _read(body: bytes) -> _RecordedOutcome:
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return _RecordedOutcome()
