"""
Authentication and authorisation.

The edge identifies the caller before routing; `Authority` then refuses callers that the route does not admit. Every
route declares the role it needs with one of the four constants below as its `opt`; one without admits no caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, cast

from corral.api.http.context import Identity, context_of, peer_address
from corral.api.middleware.proxy_login import ProxyLogin
from corral.base.clock import Clock
from corral.domain.access import LOCAL, Access, Caller
from corral.domain.errors import ForbiddenError, StoreUnavailableError, UnauthorisedError
from corral.engine.auth.api_keys import ApiKeys

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

NEEDS: Final = "needs"
OPEN: Final[Mapping[str, Access | None]] = {NEEDS: None}
"""For every caller, also without a key."""
VIEWER: Final[Mapping[str, Access | None]] = {NEEDS: Access.VIEWER}
OPERATOR: Final[Mapping[str, Access | None]] = {NEEDS: Access.OPERATOR}
ADMIN: Final[Mapping[str, Access | None]] = {NEEDS: Access.ADMIN}

LONGEST_KEY: Final = 256
"""Characters; our keys have 50, and a longer text is refused without hashing it."""
HOW_TO_SEND: Final = "send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`"
PROXY_HEADERS: Final = frozenset({b"forwarded", b"via", b"x-real-ip"})
PROXY_PREFIX: Final = b"x-forwarded-"
"""Headers of a proxy that forwarded a request. Their addresses are never used: any client can send them."""
CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
"""Methods of requests that may change something."""
ELSEWHERE: Final = frozenset({b"cross-site", b"same-site"})
"""What `Sec-Fetch-Site` says of a request of a page of another origin."""
PROXY_STREAM_SECONDS: Final = 600.0
"""
How long a stream of a user of the proxy lasts: the proxy checks the user again when the client comes back. Longer, and
a user without access reads on for that time; shorter, and a log that is followed ends often.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    """Identifies callers."""

    keys: ApiKeys
    local_only: bool
    """Bound to a loopback address: a request without a key comes from this machine, unless a proxy forwarded it, and
    has every role."""
    allowed_origins: frozenset[str]
    proxy: ProxyLogin | None = None
    """Reads users that a proxy authenticates; None: there is no such proxy."""

    async def identify(self, scope: HTTPScope, headers: Mapping[bytes, bytes]) -> Identity:
        """The caller of this request; never raises, because some routes need none."""
        address = peer_address(scope["client"][0]) if scope["client"] else "unknown"
        key = sent_key(headers)
        if key is None:
            return self._without_key(scope, headers, address)
        try:
            found = await self.keys.find(key) if len(key) <= LONGEST_KEY else None
        except StoreUnavailableError as error:
            return Identity(address=address, refusal=error)
        if found is None:
            return Identity(address=address, refusal=UnauthorisedError("this API key is not known, or was revoked"))
        return Identity(address=address, caller=Caller(name=found.name, access=found.access, key_id=found.id))

    def _without_key(self, scope: HTTPScope, headers: Mapping[bytes, bytes], address: str) -> Identity:
        if self.proxy is not None:
            try:
                user = self.proxy.user(scope, address)
            except UnauthorisedError as error:
                return Identity(address=address, refusal=error)
            if user is not None:
                return self._of_user(scope, headers, address, user)
        if not self.local_only:
            return Identity(address=address, refusal=UnauthorisedError(f"an API key is needed: {HOW_TO_SEND}"))
        if is_forwarded(headers):
            refusal = UnauthorisedError(f"an API key is needed, because a proxy forwarded this request: {HOW_TO_SEND}")
            return Identity(address=address, refusal=refusal)
        if scope["method"] in CHANGING and self._is_foreign(headers):
            # A page of another origin cannot read the responses, but a browser here would still send its requests.
            foreign = ForbiddenError("a page of another origin may not act here without a key; see ALLOWED_ORIGINS")
            return Identity(address=address, refusal=foreign, trusts_address=True)
        return _local(address)

    def _of_user(self, scope: HTTPScope, headers: Mapping[bytes, bytes], address: str, user: Caller) -> Identity:
        """The identity of a user of the proxy; a browser is signed in there whichever page sends its requests."""
        if scope["method"] in CHANGING and self._is_foreign(headers):
            foreign = ForbiddenError(
                "a page of another origin may not act here without a key; see ALLOWED_ORIGINS, and have the proxy pass "
                "Host with its port"
            )
            return Identity(address=address, refusal=foreign)
        return Identity(address=address, caller=user)

    def _is_foreign(self, headers: Mapping[bytes, bytes]) -> bool:
        origin = headers.get(b"origin")
        if origin is None:
            return headers.get(b"sec-fetch-site") in ELSEWHERE
        own = headers.get(b"host", b"")
        text = origin.decode("latin-1")
        return origin not in {b"http://" + own, b"https://" + own} and not {text, "*"} & self.allowed_origins


class Authority:
    """Middleware around every route: refuses callers without the role that the route needs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, or raise UnauthorisedError or ForbiddenError."""
        request = cast("Any", scope)
        if request["method"] != "OPTIONS":  # which lists methods only, and must work before a key is sent
            check(request["route_handler"].opt, context_of(scope).identity)
        await self._app(scope, receive, send)


def check(opt: Mapping[str, Any], identity: Identity) -> None:
    """Raise UnauthorisedError or ForbiddenError unless a route with these *opt* admits this caller."""
    if NEEDS not in opt:
        raise ForbiddenError("this route declares no role, so no caller is admitted")
    needed: Access | None = opt[NEEDS]
    if needed is None:
        return
    if identity.refusal is not None:
        raise identity.refusal
    caller = identity.caller
    if caller is None or not caller.access.admits(needed):
        kind = "" if caller is None or caller.via_proxy else "the key "
        has = "" if caller is None else f"; {kind}{caller.name!r} has {caller.access.value}"
        raise ForbiddenError(f"this needs the role {needed.value}{has}", details={"neededRole": needed.value})


def still_admitted(scope: Scope, keys: ApiKeys) -> Callable[[], Awaitable[bool]] | None:
    """
    What a stream asks now and then: whether its caller still has access. None: it has for as long as it wants.

    A key has it until it is revoked, a user of the proxy for ten minutes.
    """
    context = context_of(scope)
    caller = context.identity.caller
    if caller is None:
        return None
    if caller.via_proxy:
        return _until(context.clock, context.clock.monotonic() + PROXY_STREAM_SECONDS)
    return None if caller.key_id is None else partial(keys.is_in_use, caller.key_id)


def _until(clock: Clock, due: float) -> Callable[[], Awaitable[bool]]:
    async def is_early() -> bool:
        return clock.monotonic() < due

    return is_early


@lru_cache(maxsize=64)
def _local(address: str) -> Identity:
    """A caller on this machine."""
    return Identity(address=address, caller=LOCAL, trusts_address=True)


def is_forwarded(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a proxy forwarded the request: a loopback address is then the proxy's."""
    return not PROXY_HEADERS.isdisjoint(headers) or any(name.startswith(PROXY_PREFIX) for name in headers)


def sent_key(headers: Mapping[bytes, bytes]) -> str | None:
    """The key a request carries; other kinds of `Authorization` are ignored."""
    kind, _, credentials = headers.get(b"authorization", b"").partition(b" ")
    if kind.lower() == b"bearer":
        return credentials.strip().decode("latin-1")
    key = headers.get(b"x-api-key")
    return None if key is None else key.strip().decode("latin-1")
