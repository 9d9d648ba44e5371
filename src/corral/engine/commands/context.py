"""What the transaction of a command records about the request behind it."""

from __future__ import annotations

from dataclasses import dataclass

from corral.domain.audit import AuditEntry
from corral.domain.idempotency import IdempotencyKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The request behind a command."""

    line: AuditEntry
    """Written to the audit log with the change; the command adds the instance's id."""
    key: IdempotencyKey | None = None
    """If given, the response is stored under it with the change."""
