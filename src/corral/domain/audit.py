"""One line of the audit log: caller, request, address and outcome. No bodies, no keys, no queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from corral.domain.access import Access, Caller

UNKNOWN_CALLER: Final = "unknown"
"""The name of a caller that was not identified."""
COMMAND_LINE: Final = Caller(name="command line", access=Access.ADMIN)
"""The caller of commands that change the database itself: keys, import and rebuild."""

LEASE: Final = Caller(name="lease", access=Access.OPERATOR)
"""The caller of commands that follow from the lease of an instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One request that could change something, or that read passwords."""

    at: datetime
    caller: Caller | None
    method: str
    path: str
    address: str
    status: int
    request_id: str
    route: str | None = None
    instance_id: str | None = None
    error_code: str | None = None

    @property
    def who(self) -> str:
        """The name of the caller."""
        return UNKNOWN_CALLER if self.caller is None else self.caller.name

    def about(self, instance_id: str) -> AuditEntry:
        """This entry with the id of the instance that the request changed."""
        return replace(self, instance_id=instance_id)


def command_line_entry(route: str, path: str, now: datetime) -> AuditEntry:
    """The entry of a command that changes the database itself; *path* is what it changed."""
    return AuditEntry(
        at=now, caller=COMMAND_LINE, method="CLI", route=route, path=path, address="local", status=0, request_id=""
    )


def lease_entry(route: str, reason: str, now: datetime, instance_id: str) -> AuditEntry:
    """The entry of a command, *route*, that follows from the lease of an instance, with the reason as its path."""
    return AuditEntry(
        at=now,
        caller=LEASE,
        method="LEASE",
        route=route,
        path=reason,
        address="local",
        status=0,
        request_id="",
        instance_id=instance_id,
    )


def budget_entry(caller: str, route: str, reason: str, now: datetime, instance_id: str) -> AuditEntry:
    """The entry of a command, *route*, that follows from the budget *caller*, with the reason as its path."""
    entry = lease_entry(route, reason, now, instance_id)
    return replace(entry, caller=Caller(name=caller, access=Access.OPERATOR), method="BUDGET")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine(AuditEntry):
    """An entry as it is stored."""

    number: int
