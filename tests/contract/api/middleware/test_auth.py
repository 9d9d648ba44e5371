"""Authentication, as callers see it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.http.served_api import CREATE_BODY
from support.http.served_api import opened as opened_front
from support.http.service import Service, error_of, serving

from corral.api.http.context import Identity
from corral.api.middleware.auth import check
from corral.base.clock import SystemClock
from corral.domain.access import LOCAL, Access
from corral.domain.errors import ForbiddenError
from corral.domain.rate_limit import RateLimit
from corral.engine.auth.api_keys import create_key
from corral.store.session.database import Database


async def made(database: Database, access: Access) -> dict[str, str]:
    """The header of a new key."""
    _, text = await create_key(database, name=access.value, access=access, now=SystemClock().now())
    return {"Authorization": f"Bearer {text}"}


@pytest.fixture
async def public(database: Database) -> AsyncGenerator[Service]:
    """As if bound to an address other machines reach."""
    async with serving(database, local_only=False) as service:
        yield service


@pytest.fixture
async def local(database: Database) -> AsyncGenerator[Service]:
    async with serving(database) as service:
        yield service


async def test_without_a_key_the_error_says_how_to_send_one(public: Service) -> None:
    """401 in the one shape, with the header that says which kind of key."""
    answer = await public.ask("GET", "/api/jobs")

    error = error_of(answer, 401, "UNAUTHORIZED")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer" in error["message"]
    assert error["retryable"] is False


@pytest.mark.parametrize("key", ["", "wrong", "corral_" + "0" * 43, "x" * 5000, "\xe9"])
async def test_a_wrong_key_is_refused_and_not_repeated(public: Service, local: Service, key: str) -> None:
    """Also on loopback: a key that is sent is checked, and never repeated in an error."""
    for service in (public, local):
        answer = await service.ask("GET", "/api/jobs", headers={"X-API-Key": key})

        error = error_of(answer, 401, "UNAUTHORIZED")
        assert error["message"] == "this API key is not known, or was revoked"
        assert "details" not in error


async def test_either_header_carries_a_key(public: Service, database: Database) -> None:
    """Bearer for most clients, X-API-Key for those that cannot."""
    bearer = await made(database, Access.VIEWER)
    plain = {"X-API-Key": bearer["Authorization"].removeprefix("Bearer ")}

    assert (await public.ask("GET", "/api/jobs", headers=bearer)).status == 200
    assert (await public.ask("GET", "/api/jobs", headers=plain)).status == 200


async def test_the_error_for_a_low_role_names_the_role_needed(local: Service, database: Database) -> None:
    """A key's role applies on loopback too, where no key is needed."""
    viewer = await made(database, Access.VIEWER)
    answer = await local.ask("POST", "/api/jobs/cleanup", headers=viewer)

    error = error_of(answer, 403, "FORBIDDEN")
    assert error["message"] == "this needs the role admin; the key 'viewer' has viewer"
    assert error["details"] == {"neededRole": "admin"}
    assert (await local.ask("POST", "/api/jobs/cleanup")).status == 200


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready", "/docs", "/schema/openapi.json"])
async def test_what_is_open_is_open_to_everybody(public: Service, path: str) -> None:
    """Also to a wrong key: an orchestrator's probe must not depend on one."""
    assert (await public.ask("GET", path)).status == 200
    assert (await public.ask("GET", path, headers={"X-API-Key": "wrong"})).status == 200


async def test_health_answers_a_caller_with_a_key_while_the_database_is_away(
    public: Service, database: Database
) -> None:
    """The owner of the key cannot be read then, and is not needed."""
    viewer = await made(database, Access.VIEWER)
    database.pool.terminate()

    assert (await public.ask("GET", "/health/live", headers=viewer)).status == 200
    error_of(await public.ask("GET", "/api/jobs", headers=viewer), 503, "DATABASE_UNAVAILABLE")


async def test_any_host_name_will_do_where_keys_are_needed(public: Service, database: Database) -> None:
    """A proxy or a DNS name in front is usual there, and a foreign page has no key."""
    viewer = await made(database, Access.VIEWER)

    assert (await public.ask("GET", "/api/jobs", headers={**viewer, "Host": "corral.example"})).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
async def test_a_page_from_elsewhere_cannot_act_here(local: Service, origin: str) -> None:
    """A browser sends its request with our own Host and no body to refuse; only the Origin gives it away."""
    error_of(await local.ask("POST", "/api/jobs/cleanup", headers={"Origin": origin}), 403, "FORBIDDEN")


@pytest.mark.parametrize(
    "header",
    [
        {"Forwarded": "for=192.0.2.60;proto=http"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-Proto": "https"},
        {"X-Forwarded-Anything": ""},
        {"X-Real-IP": "127.0.0.1"},
        {"Via": "1.1 proxy"},
    ],
)
async def test_a_request_that_a_proxy_forwarded_needs_a_key(
    local: Service, database: Database, header: dict[str, str]
) -> None:
    """A proxy on this machine connects from loopback for any client; open routes stay open under any name."""
    viewer = await made(database, Access.VIEWER)
    away = {**header, "Host": "corral.example"}

    for sent in (header, away):
        error = error_of(await local.ask("GET", "/api/jobs", headers=sent), 401, "UNAUTHORIZED")
        assert "a proxy forwarded this request" in error["message"]
        error_of(await local.ask("POST", "/api/jobs/cleanup", headers=sent), 401, "UNAUTHORIZED")
        assert (await local.ask("GET", "/api/jobs", headers={**sent, **viewer})).status == 200
        assert (await local.ask("GET", "/health", headers=sent)).status == 200


async def test_an_address_cannot_be_forged(public: Service, database: Database) -> None:
    """Neither in the audit log nor for the request limit."""
    admin = await made(database, Access.ADMIN)
    forged = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"}
    await public.ask("POST", "/api/jobs/cleanup", headers={**admin, **forged})
    lines = (await public.ask("GET", "/api/audit", headers=admin)).json["entries"]
    async with serving(database, local_only=False, request_limit=RateLimit(most=2, window_seconds=900)) as limited:
        unauthenticated = [
            await limited.ask("GET", "/api/jobs", headers={"X-Forwarded-For": f"203.0.113.{n}"}) for n in range(4)
        ]

    assert {line["address"] for line in lines if line["path"] == "/api/jobs/cleanup"} == {"127.0.0.1"}
    assert [answer.status for answer in unauthenticated] == [401, 401, 429, 429]


async def test_our_own_page_and_allowed_ones_can_act(local: Service) -> None:
    """The dashboard's requests carry an Origin too."""
    for origin in (local.address, "https://ops.example"):
        assert (await local.ask("POST", "/api/jobs/cleanup", headers={"Origin": origin})).status == 200


async def test_a_page_of_an_allowed_origin_can_use_a_key(public: Service, database: Database) -> None:
    """The browser asks first, without the key, whether it may send one."""
    asked = await public.ask(
        "OPTIONS",
        "/api/jobs/cleanup",
        headers={
            "Origin": "https://ops.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, x-api-key, idempotency-key",
        },
    )
    admin = await made(database, Access.ADMIN)
    done = await public.ask("POST", "/api/jobs/cleanup", headers={**admin, "Origin": "https://ops.example"})

    assert asked.status == 204
    assert asked.headers["access-control-allow-origin"] == "https://ops.example"
    allowed = {name.strip().lower() for name in asked.headers["access-control-allow-headers"].split(",")}
    assert {"authorization", "x-api-key", "idempotency-key"} <= allowed
    assert (done.status, done.headers["access-control-allow-origin"]) == (200, "https://ops.example")


async def test_a_refusal_can_be_read_by_a_page_of_an_allowed_origin(public: Service) -> None:
    """Refused by the route or by the middleware."""
    origin = {"Origin": "https://ops.example"}
    unknown = await public.ask("GET", "/api/jobs", headers=origin)
    unread = await public.ask("POST", "/api/jobs", headers={**origin, "content-type": "text/plain"}, data=b"x")
    foreign = await public.ask("GET", "/api/jobs", headers={"Origin": "https://evil.example"})

    assert (unknown.status, unknown.headers["access-control-allow-origin"]) == (401, "https://ops.example")
    assert (unread.status, unread.headers["access-control-allow-origin"]) == (415, "https://ops.example")
    assert "access-control-allow-origin" not in foreign.headers


async def test_a_stored_answer_needs_more_than_its_idempotency_key(database: Database) -> None:
    """An idempotency key is not a secret; neither a viewer nor another operator gets what it was used for."""
    viewer, operator = await made(database, Access.VIEWER), await made(database, Access.OPERATOR)
    _, text = await create_key(database, name="other", access=Access.OPERATOR, now=SystemClock().now())
    other, once = {"X-API-Key": text}, {"Idempotency-Key": "order-1"}
    async with opened_front(database) as api:
        first, again, seen, taken = [
            await api.service.ask("POST", "/api/instances", json=CREATE_BODY, headers={**once, **caller})
            for caller in (operator, operator, viewer, other)
        ]

    assert (first.status, again.status, again.body) == (201, 201, first.body)
    error_of(seen, 403, "FORBIDDEN")
    assert taken.status == 201
    assert taken.json["instanceId"] != first.json["instanceId"]


def test_a_route_without_a_role_admits_no_caller() -> None:
    """A new route without a role fails in the first test that calls it."""
    with pytest.raises(ForbiddenError, match="declares no role"):
        check({}, Identity(address="127.0.0.1", caller=LOCAL))


async def test_responses_show_the_rate_limit_and_when_to_retry(database: Database) -> None:
    """In every answer, whatever it is; each key is counted apart from others and from those without."""
    viewer, admin = await made(database, Access.VIEWER), await made(database, Access.ADMIN)
    async with serving(database, local_only=False, request_limit=RateLimit(most=3, window_seconds=900)) as service:
        before = SystemClock().now().timestamp()
        first = await service.ask("GET", "/api/jobs", headers=viewer)
        forbidden = await service.ask("POST", "/api/jobs/cleanup", headers=viewer)
        missing = await service.ask("GET", "/nope", headers=viewer)
        refused = await service.ask("GET", "/api/jobs", headers=viewer)
        other = await service.ask("GET", "/api/jobs", headers=admin)
        unauthenticated = [await service.ask("GET", "/api/jobs", headers={"X-API-Key": f"guess-{n}"}) for n in range(4)]

        reported = [
            (a.status, a.headers["x-ratelimit-limit"], a.headers["x-ratelimit-remaining"])
            for a in (first, forbidden, missing, refused, other)
        ]
        assert reported == [(200, "3", "2"), (403, "3", "1"), (404, "3", "0"), (429, "3", "0"), (200, "3", "2")]
        assert before + 899 <= int(first.headers["x-ratelimit-reset"]) <= before + 960
        error = error_of(refused, 429, "RATE_LIMIT_EXCEEDED")
        assert error["retryable"] is True
        assert 800 < error["retryAfter"] <= 900
        assert refused.headers["retry-after"] == str(error["retryAfter"])
        assert [answer.status for answer in unauthenticated] == [401, 401, 401, 429]


async def test_probes_and_preflights_are_not_counted(database: Database) -> None:
    """They come often, and carry no key."""
    async with serving(database, request_limit=RateLimit(most=1, window_seconds=900)) as service:
        for _ in range(3):
            alive = await service.ask("GET", "/health/live")
            asked = await service.ask("OPTIONS", "/api/jobs")
            assert (alive.status, asked.status) == (200, 204)
            assert "x-ratelimit-limit" not in alive.headers
        assert (await service.ask("GET", "/api/jobs")).status == 200
        assert (await service.ask("GET", "/api/jobs")).status == 429


async def test_without_a_limit_nothing_is_said_of_one(local: Service) -> None:
    """RATE_LIMIT_MAX_REQUESTS=0 is the default."""
    assert [name for name in (await local.ask("GET", "/api/jobs")).headers if name.startswith("x-ratelimit")] == []
