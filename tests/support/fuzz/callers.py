"""What callers send: create requests and other bodies, headers, names, and addresses of webhooks."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from contextlib import suppress
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Any, Final

import msgspec
from yarl import URL

from corral.api.http.context import RequestIds, counted_address
from corral.api.http.edge import _is_local, request_ids
from corral.api.http.errors import problem
from corral.api.http.request_readers import (
    RequestReader,
    read_budget_body,
    read_change,
    read_extend,
    read_key,
    read_lease_merge,
    read_use,
)
from corral.api.middleware.auth import sent_key
from corral.api.middleware.proxy_login import ProxyLogin
from corral.domain.access import Access, is_key_name, key_digest
from corral.domain.errors import CorralError, MalformedError, SpecInvalidError, UnauthorisedError
from corral.domain.leases.lease import Lease, LeaseState
from corral.domain.observation.provider_names import is_installation, parse_provider_name, provider_name
from corral.domain.requests.create import CreateDefaults
from corral.domain.requests.lease import LeaseDefaults, changed
from corral.outbound.addresses import is_public
from corral.webhooks.deliver import _retry_after
from corral.webhooks.guard import AddressGuard
from support.clock.clocks import SteppedClock
from support.fuzz.laws import hidden, is_reported_well, keeps
from support.fuzz.target import headed
from support.http.names import Names

_RUNNER: Final = asyncio.Runner()
_CLOCK: Final = SteppedClock()
_LOGIN: Final = ProxyLogin(header="Remote-User", networks=(ip_network("10.0.0.5"),), access=Access.VIEWER)
_GUARD: Final = AddressGuard(clock=_CLOCK, allow_private=False, resolver=Names(["93.184.216.34"]))
_READER: Final = RequestReader(CreateDefaults(region="CN-HK-01", regions=("AS-SGP-02",)), _GUARD)
_ADDRESS: Final = re.compile(r"[^:/?#]*://(?P<user>(?:[^/?#]*(?=@))?)@?[^/?#@]*(?P<rest>.*)", re.DOTALL)
_IDS: Final = RequestIds(request_id="r", correlation_id="c")


def read_create_body(data: bytes) -> None:
    """A body, as what its first line says: an order, terms, a key, labels, a budget, a lease, …; or its problems."""
    (word, *_), body = headed(data, "order")
    try:
        found = _RUNNER.run(_read(word, body))
    except (MalformedError, SpecInvalidError) as error:
        _judge_refusal(error, body)
    else:
        keeps(found)


def _judge_refusal(error: CorralError, body: bytes) -> None:
    """It becomes a 400 with the message of the error."""
    is_reported_well(error, _secrets(body))
    answer = problem(error, _IDS, _CLOCK.now())
    assert answer.status == 400
    assert msgspec.json.decode(answer.body)["error"]["message"] == error.message


async def _read(word: str, body: bytes) -> Any:
    match word:
        case "terms":
            return await _READER.read_terms(body)
        case "named":
            return await _READER.read_terms(body, named=True)
        case "key":
            return read_key(body)
        case "labels":
            return read_change(body)
        case "budget":
            return read_budget_body("team", body)
        case "lease":
            return LeaseState(lease=_lease(body))
        case "extend":
            return read_extend(body)
        case "use":
            return LeaseState(last_used_at=read_use(body))
        case "adoption":
            return await _READER.read_adoption(body)
        case _:
            return await _READER.read(body)


def _lease(body: bytes) -> Lease:
    """The lease of an instance that had none, after the change that *body* asks for."""
    lease = changed(None, read_lease_merge(body), LeaseDefaults())
    if isinstance(lease, tuple):
        raise SpecInvalidError(lease)
    return lease


def _secrets(body: bytes) -> list[str]:
    """A command, and an address unless it is an origin and nothing more, which may be repeated."""
    try:
        sent = json.loads(body)
        found, commands = hidden(sent, "webhookUrl"), hidden(sent, "command", "entrypoint", "TOKEN")
    except (ValueError, RecursionError):
        return []
    read = [(url, _ADDRESS.fullmatch(url)) for url in found]
    urls = [url for url, parts in read if parts and (parts["user"].strip(":") or parts["rest"].strip("/?#"))]
    return urls + commands


def read_names(data: bytes) -> None:
    """Short texts in headers and names: each is understood or not, and none raises."""
    headers = {b"authorization": data, b"x-api-key": data, b"x-request-id": data, b"host": data}
    ids = request_ids(headers)
    assert ids.request_id.isascii()
    assert len(ids.request_id) <= 128
    key = sent_key(headers)
    assert key is None or len(key_digest(key)) == 32
    assert isinstance(_is_local(data), bool)
    text = data.decode("latin-1")
    assert counted_address(counted_address(text)) == counted_address(text)
    seconds = _retry_after(text)
    assert seconds is None or 0 <= seconds.total_seconds() < 100_000
    assert not is_key_name(text) or text.isascii()
    request: Any = {"headers": [(b"remote-user", data)]}
    with suppress(UnauthorisedError):
        user = _LOGIN.user(request, "10.0.0.5")
        assert user is not None
        assert user.name == text
        assert user.name.isprintable()
        assert not set(user.name) & set(" ,;/\"'<>&")
    for name in (text, data.decode("utf-8", "replace")):
        mark = parse_provider_name(name)
        assert mark is None or (provider_name(mark) == name and is_installation(mark.installation))


def read_address(data: bytes) -> None:
    """No spelling of an inner address is let through, and what is wrong is said without repeating any of it."""
    url = data.decode("utf-8", "replace")
    fault = _GUARD.fault(url)
    found = _RUNNER.run(_GUARD.problem(url))
    assert (fault is None) == (found is None)
    if found is not None:
        assert found.shows_value or found.value is None
        assert len(found.message) < 100
        return
    host = URL(url).raw_host or ""
    for inner in _addresses(host):
        assert is_public(inner), f"{host} is {inner}"
        assert inner.is_global or not isinstance(inner, IPv4Address), f"{host} is {inner}"
    assert not f".{host.removesuffix('.')}".endswith(".localhost")


def _addresses(host: str) -> list[Any]:
    """What *host* is an address of, to those who read it as it should be written and to those who take any spelling."""
    found: list[Any] = []
    with suppress(ValueError):
        found.append(ip_address(host.strip("[]")))
    with suppress(ValueError, OSError):
        found.append(IPv4Address(socket.inet_aton(host)))
    return found
