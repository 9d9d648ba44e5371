"""The request behind a command: its audit line, its caller and its idempotency key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from corral.domain.audit import AuditEntry
from corral.domain.idempotency import IdempotencyKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The request behind a command."""

    line: Callable[..., AuditEntry]
    """Returns the audit line, which is written with the change, for `at` and `instance_id`."""
    caller: str | None = None
    """The name of the caller, which is recorded with what it creates."""
    key: IdempotencyKey | None = None
    """If given, the response is stored under it with the change."""
    correlation_id: str | None = None
    """Kept with the operation and its job; all log lines that follow from the request carry it."""
