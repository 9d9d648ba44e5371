"""The audit line and the context of a request that a test makes without HTTP."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from corral.domain.access import LOCAL, Access, Caller
from corral.domain.audit import AuditEntry
from corral.domain.idempotency import IdempotencyKey
from corral.engine.commands.context import CommandContext

LINE: Final = AuditEntry(
    at=datetime(2030, 1, 1, tzinfo=UTC),
    caller=LOCAL,
    method="POST",
    path="/test",
    address="127.0.0.1",
    status=202,
    request_id="req_test",
)


CONTEXT: Final = CommandContext(line=partial(replace, LINE))


def keyed(key: str, fingerprint: bytes = b"same") -> CommandContext:
    """The context of a request with an Idempotency-Key."""
    return CommandContext(line=partial(replace, LINE), key=IdempotencyKey(key=key, fingerprint=fingerprint))


def line_of(name: str) -> AuditEntry:
    """The line of a request of the administrator called *name*."""
    return replace(LINE, caller=Caller(name=name, access=Access.ADMIN))
