"""Users whom a proxy authenticates: whom the header lets in, and whom it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from ipaddress import ip_network
from typing import Any

import pytest
from support.http.served_api import CREATE_BODY
from support.http.served_api import opened as opened_front
from support.http.service import Answer, Service, error_of, serving

from corral.api.middleware.proxy_login import ProxyLogin
from corral.base.clock import SystemClock
from corral.base.settings.configuration import load
from corral.domain.access import Access
from corral.domain.errors import SettingsError
from corral.domain.rate_limit import RateLimit
from corral.engine.auth.api_keys import create_key
from corral.store.session.database import Database

HEADER = "Remote-User"
HERE = (ip_network("127.0.0.1"),)
ELSEWHERE = (ip_network("10.1.0.0/24"), ip_network("fd00::/8"))
NAMED = {"AUTH_PROXY_HEADER": HEADER}
OLGA = {HEADER: "olga@example.com"}


def login(networks: Any = HERE, access: Access = Access.OPERATOR) -> ProxyLogin:
    return ProxyLogin(header=HEADER, networks=networks, access=access)


@pytest.fixture
async def proxied(database: Database) -> AsyncGenerator[Service]:
    """The tests connect from the proxy's address, and the service is on loopback, where others need no key."""
    async with serving(database, proxy_login=login()) as service:
        yield service


@pytest.fixture(params=[True, False])
async def around(database: Database, request: pytest.FixtureRequest) -> AsyncGenerator[Service]:
    """The tests connect from another address than the proxy's, to a local and to a public service."""
    async with serving(database, proxy_login=login(ELSEWHERE), local_only=request.param) as service:
        yield service


async def whoami(service: Service, **headers: str) -> Answer:
    return await service.ask("GET", "/api/whoami", headers=headers)


async def test_a_user_of_the_proxy_is_a_caller_with_name_and_role(proxied: Service) -> None:
    """Without a key; in any capitals."""
    for name in (HEADER, HEADER.lower(), HEADER.upper()):
        answer = await proxied.ask("GET", "/api/whoami", headers={name: "olga@example.com"})

        assert answer.json == {
            "name": "olga@example.com",
            "role": "operator",
            "keyId": None,
            "keyRequired": False,
            "viaProxy": True,
        }
    refused = await proxied.ask("GET", "/api/audit", headers=OLGA)
    error = error_of(refused, 403, "FORBIDDEN")
    assert error["message"] == "this needs the role admin; 'olga@example.com' has operator"


async def test_what_is_no_user_name_is_refused(proxied: Service) -> None:
    """And is not repeated in the error, and is never taken for a caller of this machine."""
    words = ["", " ", "a b", "olga, admin", "olga;admin", "a/b", "x" * 101, "olga\x7f", "ol\tga", "\xe9", "<b>"]
    for sent in (*words, "local", "lease", "unknown", "budget:", "budget:gpu-month"):
        raw = f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{HEADER}: {sent}\r\n\r\n"
        answer = await proxied.raw(raw.encode("latin-1"))

        assert answer.split(b"\r\n")[0] in {b"HTTP/1.1 401 Unauthorized", b"HTTP/1.1 400 Bad Request"}, sent
        assert b'"name"' not in answer


async def test_a_header_that_comes_twice_is_refused(proxied: Service) -> None:
    """A proxy that adds its header beside that of the client would let the client choose."""
    for first, second in ((HEADER, HEADER), (HEADER, HEADER.upper()), (HEADER.lower(), HEADER)):
        raw = f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{first}: a\r\n{second}: a\r\n\r\n"
        answer = await proxied.raw(raw.encode())

        assert answer.startswith(b"HTTP/1.1 401 "), answer
        assert b"more than once" in answer


async def test_another_header_has_no_meaning(proxied: Service) -> None:
    """Underscores are no dashes here, as they are for programs behind CGI; without a user the proxy gets 401."""
    for name in ("Remote_User", "Remote-User-", "X-Remote-User"):
        refused = await proxied.ask("GET", "/api/whoami", headers={name: "olga"})
        beside = await proxied.ask("GET", "/api/whoami", headers={name: "admin", **OLGA})

        assert "named no user" in error_of(refused, 401, "UNAUTHORIZED")["message"]
        assert beside.json["name"] == "olga@example.com"


async def test_a_trailer_names_no_user(proxied: Service) -> None:
    """A header after the body comes from the client, and proxies may pass it on."""
    head = f"POST /api/instances HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: {HEADER}\r\n"
    body = "Content-Type: application/json\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n"
    answer = await proxied.raw(f"{head}{body}{HEADER}: olga\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 401 "), answer


async def test_from_the_proxy_no_request_is_one_of_this_machine(proxied: Service) -> None:
    """A location that the proxy does not protect, and that adds no X-Forwarded-For, must not make administrators."""
    error = error_of(await whoami(proxied), 401, "UNAUTHORIZED")

    assert HEADER in error["message"]
    assert (await proxied.ask("GET", "/health/live")).status == 200
    assert (await proxied.ask("GET", "/")).status == 200


async def test_the_header_from_any_other_address_is_refused(around: Service) -> None:
    """Also on loopback, where a request without it would be allowed; it is not ignored there."""
    error = error_of(await whoami(around, **OLGA), 401, "UNAUTHORIZED")

    assert "accepted from AUTH_PROXY_ADDRESSES only" in error["message"]
    changed = await around.ask("POST", "/api/instances", json=CREATE_BODY, headers=OLGA)
    assert changed.status == 401


async def test_a_key_counts_more_than_the_header(proxied: Service, around: Service, database: Database) -> None:
    """From every address; a wrong key is refused, and is not replaced by the user."""
    _, text = await create_key(database, name="ci", access=Access.VIEWER, now=SystemClock().now())
    for service in (proxied, around):
        for key in ({"Authorization": f"Bearer {text}"}, {"X-API-Key": text}):
            answer = await whoami(service, **OLGA, **key)
            assert (answer.json["name"], answer.json["role"], answer.json["viaProxy"]) == ("ci", "viewer", False)
        assert (await whoami(service, **OLGA, **{"X-API-Key": "corral_wrong"})).status == 401
    with_password = await whoami(proxied, **OLGA, Authorization="Basic b2xnYTpwdw==")
    assert with_password.json["name"] == "olga@example.com"  # nginx passes its own password on


async def test_a_page_elsewhere_cannot_act_for_a_signed_in_browser(proxied: Service) -> None:
    """The browser adds the proxy's cookie or password by itself, also to a form that another page submits."""
    own = f"http://127.0.0.1:{proxied.port}"
    foreign = [{"Origin": origin} for origin in ("https://evil.example", "null", "http://127.0.0.1:1")]
    allowed = [{}, {"Origin": own}, {"Origin": "https://ops.example"}, {"Sec-Fetch-Site": "same-origin"}]
    foreign += [{"Sec-Fetch-Site": site} for site in ("cross-site", "same-site")]
    for headers, status in [(each, 403) for each in foreign] + [(each, 404) for each in allowed]:
        for method, path in (("POST", "/api/instances/inst_none/stop"), ("DELETE", "/api/instances/inst_none")):
            answer = await proxied.ask(method, path, headers={**OLGA, **headers})
            assert answer.status == status, (headers, answer)
    form = await proxied.ask("POST", "/api/instances", data={"name": "a"}, headers=OLGA)
    assert error_of(form, 415, "UNSUPPORTED_MEDIA_TYPE")
    reading = await proxied.ask("GET", "/api/whoami", headers={**OLGA, "Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in reading.headers


async def test_each_user_is_counted_alone(database: Database) -> None:
    """All come from the proxy's one address."""
    limit = RateLimit(most=2, window_seconds=60)
    async with serving(database, proxy_login=login(), request_limit=limit) as service:
        olga = [(await whoami(service, **OLGA)).status for _ in range(3)]
        ivan = await whoami(service, **{HEADER: "ivan"})

    assert olga == [200, 200, 429]
    assert ivan.status == 200


async def test_the_name_is_in_the_audit_log_and_in_created_by(database: Database) -> None:
    """And idempotency keys of one user are not those of another."""
    settings = {
        "AUTH_PROXY_HEADER": HEADER,
        "AUTH_PROXY_ADDRESSES": "127.0.0.0/8",
        "AUTH_PROXY_ROLE": "operator",
    }
    async with opened_front(database, login=settings) as front:
        made = await front.service.ask(
            "POST", "/api/instances", json=CREATE_BODY, headers={**OLGA, "Idempotency-Key": "one"}
        )
        again, other = [
            await front.service.ask(
                "POST", "/api/instances", json=CREATE_BODY, headers={HEADER: name, "Idempotency-Key": "one"}
            )
            for name in (OLGA[HEADER], "ivan")
        ]
        shown = await front.service.ask("GET", f"/api/instances/{made.json['instanceId']}", headers=OLGA)
        _, text = await create_key(database, name="root", access=Access.ADMIN, now=SystemClock().now())
        audit = await front.service.ask("GET", "/api/audit?who=olga@example.com", headers={"X-API-Key": text})

    assert made.status == again.status == 201
    assert again.json["instanceId"] == made.json["instanceId"] != other.json.get("instanceId")
    assert shown.json["createdBy"] == "olga@example.com"
    assert [(line["who"], line["role"], line["keyId"]) for line in audit.json["entries"]] == [
        ("olga@example.com", "operator", None)
    ] * 2


async def test_a_stream_of_a_user_ends_so_that_the_proxy_checks_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Corral does not know when the proxy stops to accept a user; of a key it does, and that goes on."""
    monkeypatch.setattr("corral.api.middleware.auth.PROXY_STREAM_SECONDS", 0.0)
    monkeypatch.setattr("corral.engine.events.stream.HEARTBEAT_SECONDS", 0.05)
    async with serving(database, proxy_login=login()) as service:
        feeding = asyncio.create_task(service.parts.event_stream.run())
        try:
            async with asyncio.timeout(20):
                answer = await service.ask("GET", "/api/events/stream", headers=OLGA)
        finally:
            feeding.cancel()

    assert answer.status == 200
    assert answer.body


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"AUTH_PROXY_HEADER": "Remote User"}, "AUTH_PROXY_HEADER"),
        ({"AUTH_PROXY_HEADER": "Remote_User"}, "AUTH_PROXY_HEADER"),
        ({"AUTH_PROXY_HEADER": "X-Forwarded-For"}, "AUTH_PROXY_HEADER"),
        ({"AUTH_PROXY_HEADER": "authorization"}, "AUTH_PROXY_HEADER"),
        ({**NAMED, "AUTH_PROXY_ADDRESSES": "10.0.0.5/8"}, "AUTH_PROXY_ADDRESSES"),
        ({**NAMED, "AUTH_PROXY_ADDRESSES": "10.0.0.5,0.0.0.0/0"}, "AUTH_PROXY_ADDRESSES"),
        ({**NAMED, "AUTH_PROXY_ADDRESSES": "::/0"}, "AUTH_PROXY_ADDRESSES"),
        ({**NAMED, "AUTH_PROXY_ADDRESSES": "::ffff:10.0.0.5"}, "AUTH_PROXY_ADDRESSES"),
        ({**NAMED, "AUTH_PROXY_ADDRESSES": "proxy.example"}, "AUTH_PROXY_ADDRESSES"),
        ({"AUTH_PROXY_ROLE": "root"}, "AUTH_PROXY_ROLE"),
        (NAMED, "AUTH_PROXY_ADDRESSES"),
        ({"AUTH_PROXY_ADDRESSES": "10.0.0.5"}, "AUTH_PROXY_HEADER"),
    ],
)
def test_settings_that_would_not_protect_are_refused_by_name(environ: dict[str, str], named: str) -> None:
    """At the start: one part without the other, all addresses, IPv4 as IPv6, and headers with other meanings."""
    with pytest.raises(SettingsError, match=named):
        ProxyLogin.of(load(environ).settings.proxy_login)


@pytest.mark.parametrize(
    ("address", "is_proxy"),
    [
        ("10.1.0.7", True),
        ("fd00::1", True),
        ("fe80::1%eth0", False),
        ("10.1.1.7", False),
        ("::1", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_the_peer_of_the_connection_decides(address: str, is_proxy: bool) -> None:  # noqa: FBT001
    """And never one that is not known."""
    assert login(ELSEWHERE)._is_proxy(address) is is_proxy
    assert login(ELSEWHERE)._is_proxy(address) is is_proxy
