"""
What is known about one request beside its body.

The edge makes one `RequestContext` a request and keeps it in the ASGI scope; middleware and routes read it with
`context_of`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from corral.base.clock import Clock
from corral.base.tracing import tracing
from corral.domain.access import Caller
from corral.domain.audit import AuditEntry
from corral.domain.errors import CorralError, FieldProblem
from corral.domain.idempotency import IdempotencyKey
from corral.engine.commands.context import CommandContext

if TYPE_CHECKING:
    from litestar.types import HTTPScope, Scope

MOST_PATH_CHARACTERS: Final = 300
"""Of a path in an audit line. Fewer cuts off honest paths; more lets one request write a long line."""
_CONTEXT: Final = "context"


class RequestIds(NamedTuple):
    """The ids of one request in responses and logs."""

    request_id: str
    correlation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The caller of a request; without one, the reason."""

    address: str
    """Of the other end of the connection: a proxy's, if there is one between."""
    caller: Caller | None = None
    refusal: CorralError | None = None
    trusts_address: bool = False
    """Whether nothing but the loopback address identifies the caller: the request must then name this machine as its
    host, because a page elsewhere can point a name of its own here."""

    @property
    def counted_as(self) -> str:
        """The name under which the requests of this caller are counted: of its key or user, or the address."""
        caller_id = None if self.caller is None else self.caller.id
        return counted_address(self.address) if caller_id is None else caller_id


UNIDENTIFIED: Final = Identity(address="unknown")
"""Until the edge has identified the caller."""


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """One request: its ids, its caller, its key, and what is already recorded about it."""

    scope: HTTPScope
    method: str
    """As sent: of a HEAD request, which is served as a GET, HEAD."""
    headers: Mapping[bytes, bytes]
    ids: RequestIds
    clock: Clock
    identity: Identity = UNIDENTIFIED
    key: IdempotencyKey | None = None
    """None without an `Idempotency-Key`, and for routes whose response the middleware stores."""
    is_settled: bool = False
    """Whether the response to `key` is stored, or need not be."""
    is_audited: bool = False
    """Whether the audit line is committed, or there is to be none."""
    problems: tuple[FieldProblem, ...] = ()
    """What is invalid beside the body, for a route that reports everything at once."""

    def command(self, status: int) -> CommandContext:
        """What a command records about this request, which is answered with *status* if it succeeds."""
        line, caller = partial(self.audit_entry, status=status), self.identity.caller
        name = None if caller is None else caller.name
        return CommandContext(
            line=line,
            caller=name,
            key=self.key,
            correlation_id=self.ids.correlation_id,
            traceparent=tracing.traceparent(),
        )

    def success_line(self, status: int) -> AuditEntry:
        """The audit line of this request if it succeeds, for the transaction of its change."""
        return self.audit_entry(at=self.clock.now(), status=status, instance_id=None)

    def audit_entry(
        self, *, at: datetime, status: int, instance_id: str | None, error_code: str | None = None
    ) -> AuditEntry:
        """The audit line of this request when it is answered with *status*."""
        request = cast("Any", self.scope)
        return AuditEntry(
            at=at,
            caller=self.identity.caller,
            method=self.method,
            route=request.get("path_template"),
            path=printable(request["path"]),
            instance_id=instance_id,
            address=self.identity.address,
            status=status,
            error_code=error_code,
            request_id=self.ids.request_id,
        )


def keep_context(scope: HTTPScope, context: RequestContext) -> None:
    """Make *context* the one that `context_of` returns for *scope*."""
    scope.setdefault("state", {})[_CONTEXT] = context


def context_of(scope: Scope) -> RequestContext:
    """The context of the request that *scope* describes."""
    context: RequestContext = scope["state"][_CONTEXT]
    return context


def printable(text: str) -> str:
    """*text* as an audit line can hold it: short, and of printable characters only."""
    short = text[:MOST_PATH_CHARACTERS]
    return short if short.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in short)


def peer_address(host: str) -> str:
    """The address of a peer in its usual form: an IPv4 address that a socket of IPv6 shows as `::ffff:10.0.0.5` too."""
    if not host.lower().startswith("::ffff:"):
        return host
    mapped = ipaddress.IPv6Address(host).ipv4_mapped
    return host if mapped is None else str(mapped)


def counted_address(host: str) -> str:
    """*host* as one caller: of an IPv6 address only the network, because one machine has all of it to choose from."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return host
    return str(ipaddress.ip_network((address, 64), strict=False))
