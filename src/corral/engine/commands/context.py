"""The request behind a command: its audit line, its caller and its idempotency key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from corral.domain.audit import AuditEntry
from corral.domain.idempotency import IdempotencyKey
from corral.domain.leases.lease import EndCause


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOrder:
    """What a lease decided about one generation of its instance."""

    generation: int
    """The one that was judged: of a later one nothing is known, and the command is refused as stale."""
    cause: EndCause | None
    """Why it ends; None: it is started."""
    reason: str


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
    traceparent: str | None = None
    """The span of the request, kept with the operation."""
    lease: LeaseOrder | None = None
    """If the lease of the instance gives the command."""
    reason: str | None = None
    """Why, if a budget gives the command."""
