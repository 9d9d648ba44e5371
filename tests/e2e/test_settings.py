"""
No setting is read and ignored: each has a proof here, which sees it work in a running service.

One service runs with nothing as it is by default; what it does differently is what its settings did.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from support.clock.clocks import SteppedClock
from support.clock.waiting import until
from support.http.servers import unused_port
from support.http.service import Answer
from support.processes.process import Running, quicken, serving
from support.provider.rate_limit_store import MemoryRateLimitStore
from support.provider.upstream import upstream

from corral.app.runtime import probe_policy
from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.base.settings.configuration import load
from corral.cloud.novita.account import opened_account
from corral.domain.errors import CircuitOpenError, CloudError, CloudTransientError
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.machine.utilization import period
from corral.domain.observation.sighting import Endpoint
from corral.domain.placement.catalog import PortKind
from corral.health.probe import Prober
from corral.jobs.pgqueuer_adapter import install, queries_of
from corral.jobs.registry import JobPool
from corral.store.secrets.key_file import SecretKeyFile
from corral.store.server.migrate import migrate
from corral.store.server.target import DatabaseTarget
from novitasim.testing import Simulated, start_simulator
from novitasim.world.instance import Instance

KEY, SECRET = "odd-key", "odd-secret"
ODD = {
    "ALLOWED_ORIGINS": "https://ops.example",
    "AUTH_PROXY_HEADER": "X-Odd-User",
    "AUTH_PROXY_ADDRESSES": "127.0.0.3",
    "AUTH_PROXY_ROLE": "operator",
    "RATE_LIMIT_MAX_REQUESTS": "54321",
    "RATE_LIMIT_WINDOW_MS": "60000",
    "REQUEST_TIMEOUT": "1500",
    "MAX_RETRY_ATTEMPTS": "1",
    "NOVITA_RATE_LIMIT_PER_MINUTE": "2345",
    "DEFAULT_REGION": "AS-IN-01",
    "CORRAL_REGIONS": "AS-SGP-02",
    "INSTANCE_POLL_INTERVAL": "1",
    "INSTANCE_STARTUP_MAX_WAIT_TIME": "77000",
    "INSTANCE_STARTUP_ENABLE_NAME_LOOKUP": "false",
    "CORRAL_READY_STATUS": "running",
    "CORRAL_ORPHANS": "delete",
    "CORRAL_EVENT_RETENTION": "40",
    "CORRAL_RECONCILE": "false",
    "CORRAL_DEFAULT_TTL": "300d",
    "CORRAL_DEFAULT_IDLE": "29d",
    "CORRAL_MAX_TTL": "330d",
    "CORRAL_RESERVE_HOURS": "2.5",
    "CORRAL_LOW_BALANCE_HOURS": "8760",
    "MAX_CONCURRENT_JOBS": "3",
    "HEALTH_CHECK_TIMEOUT_MS": "2345",
    "HEALTH_CHECK_RETRY_ATTEMPTS": "1",
    "HEALTH_CHECK_RETRY_DELAY_MS": "234",
    "HEALTH_CHECK_MAX_WAIT_TIME_MS": "34567",
    "WEBHOOK_TIMEOUT": "345",
    "CORRAL_WEBHOOK_ALLOW_PRIVATE": "true",
    "CACHE_TIMEOUT": "1",
    "CACHE_CLEANUP_INTERVAL": "1",
    "COMPREHENSIVE_CACHE_TTL": "0",
    "DEFAULT_INCLUDE_NOVITA_ONLY": "false",
    "LOG_LEVEL": "debug",
    "CORRAL_TRACING": "true",
    "OTEL_BSP_SCHEDULE_DELAY": "200",
}
CREATE_BODY = {"productName": "RTX 4090 24GB", "templateId": "107672"}


@dataclass(kw_only=True)
class ServedApiWithProvider:
    """The odd service, its provider, its receiver and its database."""

    corral: Running
    sim: Simulated
    database: DatabaseTarget
    server: DatabaseTarget
    folder: Path
    receiver: str
    """Its address."""
    received: list[web.Request] = field(default_factory=list)
    deaf: asyncio.Event
    """While it is not set, messages are taken and not answered."""

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, headers=headers)

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        async with (
            aiohttp.ClientSession() as client,
            client.request(method, self.corral.address + path, **options) as response,
        ):
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(status=response.status, headers=headers, body=await response.read())

    async def request_create(self, name: str, **fields: object) -> str:
        answer = await self.ask("POST", "/api/instances", json={**CREATE_BODY, "name": name, **fields})
        assert answer.status == 201, answer
        return str(answer.json["instanceId"])

    async def record(self, instance_id: str) -> dict[str, Any]:
        """What the database remembers of an instance."""
        connection = await asyncpg.connect(**self.database.arguments())
        try:
            record = await connection.fetchval("SELECT record FROM corral_instances WHERE id = $1", instance_id)
        finally:
            await connection.close()
        found: dict[str, Any] = msgspec.json.decode(record)
        return found

    async def number(self, name: str, **labels: str) -> float:
        """One of the service's numbers; 0 before it is first counted."""
        text = (await self.get("/metrics")).body.decode()
        samples = (s for family in text_string_to_metric_families(text) for s in family.samples)
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    async def reaches(self, instance_id: str, status: str) -> None:
        """Let the provider's time pass until the instance is in *status*."""

        async def is_there() -> bool:
            self.sim.advance(1)
            return bool((await self.get(f"/api/instances/{instance_id}")).json["status"] == status)

        await until(is_there, what=status)


Proof = Callable[[ServedApiWithProvider], Awaitable[None]]
PROOFS: dict[str, Proof] = {}


def proves(*names: str) -> Callable[[Proof], Proof]:
    """Marks what sees these settings work."""

    def kept(proof: Proof) -> Proof:
        PROOFS.update(dict.fromkeys(names, proof))
        return proof

    return kept


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(server: DatabaseTarget, short_dir: Path) -> AsyncGenerator[ServedApiWithProvider]:
    """Everything odd, for as long as the tests of this file run; the secrets are read from files."""
    database, received, deaf = server.named("odd_settings"), list[web.Request](), asyncio.Event()
    deaf.set()

    async def receive(request: web.Request) -> web.Response:
        await request.read()
        received.append(request)
        await deaf.wait()
        return web.Response(status=204)

    connection = await asyncpg.connect(**server.arguments())
    await connection.execute("CREATE DATABASE odd_settings")
    await connection.close()
    await migrate(database, first=install)
    SecretKeyFile(short_dir / "odd.key").load_or_create()
    secrets = {
        "NOVITA_API_KEY": KEY,
        "WEBHOOK_SECRET": SECRET,
        "DATABASE_URL": f"postgresql://{server.user}@/odd_settings?host={server.host}",
    }
    for name, secret in secrets.items():
        (short_dir / name).write_text(secret + "\n")
    async with AsyncExitStack() as stack:
        sim = await stack.enter_async_context(start_simulator(keys=frozenset({KEY})))
        receiver = await stack.enter_async_context(upstream(receive))
        environment = {
            **ODD,
            **{f"{name}_FILE": str(short_dir / name) for name in secrets},
            "NOVITA_API_BASE_URL": sim.base_url,
            "WEBHOOK_URL": f"{receiver}/hook",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"{receiver}/collector",
            "CORRAL_SECRET_KEY_FILE": str(short_dir / "odd.key"),
        }
        corral = await stack.enter_async_context(serving(short_dir / "odd" / ".corral", **environment))
        yield ServedApiWithProvider(
            corral=corral,
            sim=sim,
            database=database,
            server=server,
            folder=short_dir,
            receiver=receiver,
            received=received,
            deaf=deaf,
        )
        deaf.set()


@proves("HOST", "PORT", "CORRAL_DATA_DIR", "ENABLE_COMPREHENSIVE_LISTING", "WEBHOOK_FORMAT")
async def _a_second_service(served: ServedApiWithProvider) -> None:
    """Where it listens, where it keeps its data, and two settings that the odd service needs as they are."""
    port = unused_port("127.0.0.2")
    data_dir = served.folder / "second" / ".corral"
    odd = {"HOST": "127.0.0.2", "PORT": str(port), "ENABLE_COMPREHENSIVE_LISTING": "false", "WEBHOOK_FORMAT": "discord"}
    odd |= {"WEBHOOK_URL": f"{served.receiver}/chat", "CORRAL_WEBHOOK_ALLOW_PRIVATE": "true"}
    async with serving(data_dir, port="", **odd) as second:
        assert second.address == f"http://127.0.0.2:{port}"
        async with (
            aiohttp.ClientSession(headers={"Host": "localhost"}) as client,
            client.get(f"{second.address}/api/instances/comprehensive") as response,
        ):
            assert response.status == 404
            await quicken(data_dir)
            body = {**CREATE_BODY, "name": "announced"}
            async with client.post(f"{second.address}/api/instances", json=body) as made:
                assert made.status == 201
            await until(lambda: _messages(served, "/chat"), what="a message for a chat")
        assert (data_dir / "simulator" / "address").exists()
    message = msgspec.json.decode(await _messages(served, "/chat")[0].read())
    assert message["content"] == "announced is ready"
    assert (await served.get("/api/instances/comprehensive")).status == 200


@proves("DATABASE_URL", "NOVITA_API_KEY", "NOVITA_API_BASE_URL")
async def _the_request_is_in_that_database_and_at_that_provider(served: ServedApiWithProvider) -> None:
    """The provider takes this one key alone."""
    instance_id = await served.request_create("placed")
    await until(lambda: served.sim.instances(instance_id.removeprefix("inst_")), what="the create call")

    assert (await served.record(instance_id))["order"]["name"] == "placed"


@proves("CORRAL_SECRET_KEY_FILE")
async def _a_secret_is_encrypted_with_that_key(served: ServedApiWithProvider) -> None:
    """And no other one is made."""
    instance_id = await served.request_create("secretive", secrets={"TOKEN": "odd"})
    own = instance_id.removeprefix("inst_")
    await until(lambda: served.sim.instances(own), what="the create call")

    assert {env.key: env.value for env in served.sim.instances(own)[0].order.envs}["TOKEN"] == "odd"
    assert not (served.folder / "odd" / ".corral" / "secret.key").exists()


@proves("ALLOWED_ORIGINS")
async def _a_page_of_that_origin_may_read(served: ServedApiWithProvider) -> None:
    allowed = await served.get("/api/jobs", Origin="https://ops.example")
    other = await served.get("/api/jobs", Origin="https://other.example")

    assert allowed.headers["access-control-allow-origin"] == "https://ops.example"
    assert other.headers.get("access-control-allow-origin") != "https://other.example"


@proves("AUTH_PROXY_HEADER", "AUTH_PROXY_ADDRESSES", "AUTH_PROXY_ROLE")
async def _the_user_of_that_header_is_accepted_from_that_address_only(served: ServedApiWithProvider) -> None:
    named = {"X-Odd-User": "olga"}
    refused = await served.get("/api/whoami", **named)
    from_proxy = aiohttp.TCPConnector(local_addr=("127.0.0.3", 0))
    async with (
        aiohttp.ClientSession(connector=from_proxy) as client,
        client.get(f"{served.corral.address}/api/whoami", headers=named) as response,
    ):
        caller = await response.json()

    assert refused.status == 401
    assert (caller["name"], caller["role"], caller["viaProxy"]) == ("olga", "operator", True)


@proves("RATE_LIMIT_MAX_REQUESTS", "RATE_LIMIT_WINDOW_MS")
async def _requests_are_counted_over_that_window(served: ServedApiWithProvider) -> None:
    headers = (await served.get("/api/jobs")).headers

    assert headers["x-ratelimit-limit"] == "54321"
    assert int(headers["x-ratelimit-remaining"]) < 54321
    assert int(headers["x-ratelimit-reset"]) - SystemClock().now().timestamp() <= 61


@proves("REQUEST_TIMEOUT", "MAX_RETRY_ATTEMPTS")
async def _a_provider_that_hangs_is_given_up_after_one_repetition(served: ServedApiWithProvider) -> None:
    """Two tries of 1.5 s and a second between them, instead of four of 30 s."""
    before = await served.number("corral_provider_retries_total", endpoint="template")
    served.sim.fault("hang", on="template", count=10)
    answer = await served.get("/api/templates/999999")
    served.sim.no_more_faults()

    assert answer.status == 504
    assert await served.number("corral_provider_retries_total", endpoint="template") == before + 1


@proves("NOVITA_RATE_LIMIT_PER_MINUTE")
async def _the_provider_is_asked_within_that_budget(served: ServedApiWithProvider) -> None:
    health = (await served.get("/health")).json

    assert health["dependencies"]["novitaApi"]["callsPerMinute"] == 2345


@proves("CORRAL_METRICS_SHARE")
async def _measurements_take_no_more_than_their_share(served: ServedApiWithProvider) -> None:
    """Of 500 calls a minute, a hundredth."""
    instance_id = await served.sim.create("measured")
    within, clock = period(SystemClock().now(), timedelta(minutes=5)), SystemClock()
    settings = load({"NOVITA_RATE_LIMIT_PER_MINUTE": "500", "CORRAL_METRICS_SHARE": "0.01"}).settings.provider
    async with opened_account(
        settings,
        base_url=served.sim.base_url,
        api_key=SecretStr(KEY),
        store=MemoryRateLimitStore(clock),
        clock=clock,
        metrics=Metrics(),
        jitter=lambda: 0.5,
    ) as account:
        for _ in range(5):
            await account.utilization(instance_id, within)
        with pytest.raises(CloudTransientError, match="CORRAL_METRICS_SHARE"):
            await account.utilization(instance_id, within)


@proves("CIRCUIT_BREAKER_THRESHOLD")
async def _a_failing_provider_is_left_alone_after_so_many_failures(served: ServedApiWithProvider) -> None:
    """Counted from the first failure to the first call that is not sent."""
    for threshold in (2, 7):
        settings = load({"CIRCUIT_BREAKER_THRESHOLD": str(threshold), "MAX_RETRY_ATTEMPTS": "1"}).settings.provider
        metrics = Metrics()
        assert await _pauses(settings, served, 1, metrics) == [5]
        failed = metrics.registry.get_sample_value(
            "corral_provider_calls_total", {"endpoint": "clusters", "outcome": "did_not_happen"}
        )
        assert failed == threshold


@proves("CIRCUIT_BREAKER_RECOVERY_MS")
async def _a_failing_provider_is_tried_again_after_that_pause(served: ServedApiWithProvider) -> None:
    """The pause doubles with each failed trial, up to that."""
    for longest, pauses in (("5000", [5, 5, 5]), ("12000", [5, 10, 12])):
        settings = load({"CIRCUIT_BREAKER_RECOVERY_MS": longest, "MAX_RETRY_ATTEMPTS": "1"}).settings.provider
        assert await _pauses(settings, served, len(pauses)) == pauses


async def _pauses(
    settings: Any, served: ServedApiWithProvider, count: int, metrics: Metrics | None = None
) -> list[int]:
    clock, found = _Racing(), list[int]()
    async with opened_account(
        settings,
        base_url="http://127.0.0.1:9",  # no server listens there
        api_key=SecretStr(KEY),
        store=MemoryRateLimitStore(clock),
        clock=clock,
        metrics=metrics or Metrics(),
        jitter=lambda: 0.5,
    ) as account:
        while len(found) < count:
            try:
                await account.clusters()
            except CircuitOpenError as error:
                pause = error.retry_after_seconds or 0.0
                found.append(round(pause))
                clock.advance(pause + 0.01)
            except CloudError:
                pass
    assert served.corral.process.returncode is None
    return found


class _Racing(SteppedClock):
    """No test waits: a sleep ends at once, and the time has not moved."""

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002  # a Clock's
        await asyncio.sleep(0)  # noqa: TID251  # others have their turn


@proves("DEFAULT_REGION", "CORRAL_REGIONS")
async def _regions_are_tried_in_that_order(served: ServedApiWithProvider) -> None:
    plan = (await served.ask("POST", "/api/instances?dryRun=true", json={**CREATE_BODY, "name": "plan"})).json
    tried = [offer["region"] for offer in [*plan["candidates"], *plan["rejected"]]]

    assert plan["candidates"][0]["region"] == "AS-IN-01"
    assert set(tried) == {"AS-IN-01", "AS-SGP-02"}


@proves("CORRAL_DEFAULT_TTL", "CORRAL_DEFAULT_IDLE", "CORRAL_MAX_TTL")
async def _a_request_without_a_lease_gets_that_one(served: ServedApiWithProvider) -> None:
    """And no request gets a longer one."""
    usual, endless = await served.request_create("usual"), await served.request_create("endless", lease=None)
    longer = {**CREATE_BODY, "name": "longer", "lease": {"maxDuration": "331d"}}
    leases = [(await served.get(f"/api/instances/{each}")).json["lease"] for each in (usual, endless)]

    assert [(each["maxDuration"], each["idle"]) for each in leases] == [
        ("300d", {"after": "29d", "gpuBelow": 5.0, "cpuBelow": 10.0, "signals": ["gpu", "cpu", "lastUsed"]}),
        ("330d", None),
    ]
    assert (await served.ask("POST", "/api/instances", json=longer)).status == 400


@proves("INSTANCE_POLL_INTERVAL")
async def _the_provider_is_looked_at_every_second(served: ServedApiWithProvider) -> None:
    """Also when nothing moves; by default that would be every half minute."""
    began = await served.number("corral_looks_total", outcome="complete")

    async def has_looked() -> bool:
        return await served.number("corral_looks_total", outcome="complete") >= began + 4

    await until(has_looked, within=20)


@proves("CORRAL_READY_STATUS", "INSTANCE_STARTUP_MAX_WAIT_TIME")
async def _a_ready_instance_reads_running_and_a_start_has_that_deadline(served: ServedApiWithProvider) -> None:
    instance_id = await served.request_create("starter")
    await served.reaches(instance_id, "running")
    assert "ready" not in (await served.get("/api/metrics")).json["instances"]["byStatus"]
    assert (await served.ask("POST", f"/api/instances/{instance_id}/stop")).status == 202
    await served.reaches(instance_id, "exited")

    assert (await served.ask("POST", f"/api/instances/{instance_id}/start")).status == 202
    record = await served.record(instance_id)
    operation = (await served.get(f"/api/instances/{instance_id}/operations")).json["operations"][0]
    asked, deadline = operation["phases"]["startRequested"], record["deadline_at"]
    assert round((_time(deadline) - _time(asked)).total_seconds()) == 77


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


@proves("INSTANCE_STARTUP_ENABLE_NAME_LOOKUP")
async def _a_name_that_only_the_provider_knows_is_not_looked_up(served: ServedApiWithProvider) -> None:
    await served.sim.create("stranger")
    answer = await served.ask("POST", "/api/instances/start", json={"instanceName": "stranger"})

    assert (answer.status, answer.json["error"]["code"]) == (404, "INSTANCE_NOT_FOUND")


@proves("MAX_CONCURRENT_JOBS")
async def _the_worker_runs_so_many_at_once(served: ServedApiWithProvider) -> None:
    """As it says itself, with what it hands to the queue."""

    def reported() -> list[str]:
        return [line for line in served.corral.lines if "worker.started" in line]

    await until(lambda: len(reported()) == len(JobPool), what="the workers")
    started = map(msgspec.json.decode, reported())
    assert {line["pool"]: line["concurrency"] for line in started} == {"main": 3, "webhooks": 32}


@proves(
    "HEALTH_CHECK_TIMEOUT_MS",
    "HEALTH_CHECK_RETRY_ATTEMPTS",
    "HEALTH_CHECK_RETRY_DELAY_MS",
    "HEALTH_CHECK_MAX_WAIT_TIME_MS",
)
async def _an_order_without_checks_gets_those(served: ServedApiWithProvider) -> None:
    health = (await served.record(await served.request_create("checked")))["order"]["health"]

    assert {name: health[name] for name in ("timeout_ms", "retry_attempts", "retry_delay_ms", "max_wait_ms")} == {
        "timeout_ms": 2345,
        "retry_attempts": 1,
        "retry_delay_ms": 234,
        "max_wait_ms": 34567,
    }


@proves("CORRAL_HEALTH_CHECK_ALLOW_PRIVATE")
async def _an_endpoint_at_an_inner_address_is_checked(served: ServedApiWithProvider) -> None:
    """By default only if the provider itself is on this machine."""
    place = urlsplit(served.corral.address).netloc
    endpoint = Endpoint(port=80, kind=PortKind.HTTP, address=f"http://{place}/health/live")
    seen = {}
    for value in ("false", "true"):
        settings = load({"CORRAL_HEALTH_CHECK_ALLOW_PRIVATE": value}).settings
        for provider in ("https://api.novita.ai", served.sim.base_url):
            async with Prober.open(clock=SystemClock(), policy=probe_policy(settings, provider)) as prober:
                report = await prober.check([endpoint], HealthCheckSpec())
            seen[value, provider] = [error.category.value for error in report.errors]

    assert seen == {
        ("false", "https://api.novita.ai"): ["address_refused"],
        ("false", served.sim.base_url): [],
        ("true", "https://api.novita.ai"): [],
        ("true", served.sim.base_url): [],
    }


@proves("WEBHOOK_URL", "WEBHOOK_SECRET", "CORRAL_WEBHOOK_ALLOW_PRIVATE")
async def _news_goes_to_that_receiver_signed(served: ServedApiWithProvider) -> None:
    """Which is on a loopback address."""
    await served.request_create("watched")
    await until(lambda: _messages(served, "/hook"), what="a webhook")

    assert _messages(served, "/hook")[0].headers["x-webhook-signature"].startswith("sha256=")


def _messages(served: ServedApiWithProvider, path: str) -> list[web.Request]:
    return [request for request in served.received if request.path == path]


@proves("WEBHOOK_TIMEOUT")
async def _a_receiver_that_hangs_is_given_up(served: ServedApiWithProvider) -> None:
    served.deaf.clear()
    instance_id = await served.request_create("unheard")

    async def attempt() -> dict[str, Any] | None:
        found = (await served.get(f"/api/webhooks/deliveries?instanceId={instance_id}")).json["deliveries"]
        attempts = [a for delivery in found for a in delivery["history"]]
        return attempts[-1] if attempts else None

    await until(attempt, what="a failed attempt")
    failed = await attempt()  # before the receiver answers: from then on an attempt succeeds
    served.deaf.set()
    assert failed is not None
    assert failed["httpStatus"] is None
    assert 300 <= failed["durationMs"] < 5000


@proves("CACHE_TIMEOUT")
async def _products_are_forgotten_after_a_second(served: ServedApiWithProvider) -> None:
    async def is_asked_again() -> bool:
        assert (await served.get("/api/products")).status == 200
        return bool((await served.get("/api/cache/products/stats")).json["evictions"] >= 1)

    await until(is_asked_again, what="a second question")


@proves("CACHE_CLEANUP_INTERVAL")
async def _expired_values_are_removed_without_a_question(served: ServedApiWithProvider) -> None:
    """Values live for a second here, and are looked for every second."""
    await served.get("/api/products")

    async def are_gone() -> bool:
        return bool((await served.get("/api/cache/products/stats")).json["size"] == 0)

    before = (await served.get("/api/cache/products/stats")).json
    assert before["sets"] > 0
    await until(are_gone, what="the removal of expired values")


@proves("COMPREHENSIVE_CACHE_TTL", "DEFAULT_INCLUDE_NOVITA_ONLY")
async def _the_merged_listing_is_not_cached_and_lacks_foreign_instances(served: ServedApiWithProvider) -> None:
    await served.sim.create("foreign")
    asked = "/api/instances/comprehensive"
    defaults = [(await served.get(asked)).json for _ in range(3)][-1]
    everything = (await served.get(f"{asked}?includeNovitaOnly=true")).json

    assert defaults["performance"]["cacheHitRatio"] == 0
    assert "foreign" not in {instance["name"] for instance in defaults["instances"]}
    assert "foreign" in {instance["name"] for instance in everything["instances"]}


@proves("DEFAULT_SYNC_LOCAL_STATE")
async def _every_listing_is_a_look_at_the_provider(served: ServedApiWithProvider) -> None:
    """In a service that would not look by itself for the next five minutes; what it lately saw would do otherwise."""
    odd = {"DEFAULT_SYNC_LOCAL_STATE": "true", "INSTANCE_POLL_INTERVAL": "300", "COMPREHENSIVE_CACHE_TTL": "0"}
    async with serving(served.folder / "third" / ".corral", **odd) as third:
        looker = replace(served, corral=third)
        await until(lambda: looker.number("corral_looks_total", outcome="complete"), what="the first look")
        before = await looker.number("corral_provider_calls_total", outcome="ok")
        for _ in range(3):
            assert (await looker.get("/api/instances/comprehensive")).status == 200

        assert await looker.number("corral_provider_calls_total", outcome="ok") == before + 3


@proves("CORRAL_ORPHANS")
async def _an_orphan_is_deleted_after_an_hour(served: ServedApiWithProvider) -> None:
    """By default it would only be reported."""
    connection = await asyncpg.connect(**served.database.arguments())
    try:
        mark = await connection.fetchval("SELECT mark FROM corral_installation")
        orphan = await served.sim.create(f"corral-{mark}-inst-forgotten-1")

        async def is_reported() -> bool:
            found = (await served.get("/api/orphans")).json["orphans"]
            return [o["action"] for o in found if o["novitaInstanceId"] == orphan] == ["delete"]

        await until(is_reported, what="the report")
        await connection.execute("UPDATE corral_orphans SET first_seen_at = first_seen_at - interval '2 hours'")
        await queries_of(connection).enqueue("sweep_orphans", b"{}", 0)
        await until(lambda: orphan not in {instance.id for instance in _present(served.sim)}, what="the deletion")
    finally:
        await connection.close()


def _present(sim: Simulated) -> list[Instance]:
    sim.advance(1)
    return sim.instances()


@proves("CORRAL_RESERVE_HOURS")
async def _a_create_reserves_two_and_a_half_hours(served: ServedApiWithProvider) -> None:
    """Of its price, in every budget that counts it; by default one hour."""
    budget = {"scope": "label:odd=hours", "period": "total", "limitUsd": 1}
    assert (await served.ask("PUT", "/api/budgets/odd", json=budget)).status == 201
    wanted = {**CREATE_BODY, "name": "odd", "labels": {"odd": "hours"}}
    plan = (await served.ask("POST", "/api/instances?dryRun=true", json=wanted)).json

    assert (plan["candidates"][0]["price"], plan["budgets"][0]["wanted"]) == (0.18, 0.45)


@proves("CORRAL_LOW_BALANCE_HOURS")
async def _a_balance_for_less_than_a_year_is_reported(served: ServedApiWithProvider) -> None:
    """By default it would be one for less than half a day."""
    await served.reaches(await served.request_create("costly"), "running")
    served.sim.set(balance_usd=100)
    connection = await asyncpg.connect(**served.database.arguments())
    try:
        await queries_of(connection).enqueue("sweep_balance", b"{}", 0)

        async def is_reported() -> bool:
            events = (await served.get("/api/events?last=500")).json["events"]
            return any(event["event"] == "account.low_balance" for event in events)

        await until(is_reported, what="the report")
    finally:
        await connection.close()
        served.sim.set(balance_usd=0)


@proves("CORRAL_EVENT_RETENTION")
async def _history_is_deleted_after_so_many_days(served: ServedApiWithProvider) -> None:
    """By default both lines would stay."""
    connection = await asyncpg.connect(**served.database.arguments())
    try:
        for days in (39, 41):
            await connection.execute(
                "INSERT INTO corral_audit (at, who, method, path, address, status, request_id)"
                " VALUES (now() - make_interval(days => $1), 'local', 'POST', '/old', '127.0.0.1', 200, $2)",
                days,
                f"req_{days}",
            )
        await queries_of(connection).enqueue("sweep_audit", b"{}", 0)

        async def kept() -> list[str]:
            rows = await connection.fetch("SELECT request_id FROM corral_audit WHERE path = '/old'")
            return [row["request_id"] for row in rows]

        async def is_deleted() -> bool:
            return "req_41" not in await kept()

        await until(is_deleted, what="the deletion")
        assert await kept() == ["req_39"]
    finally:
        await connection.close()


@proves("CORRAL_RECONCILE")
async def _no_day_is_compared_with_the_bill_by_itself(served: ServedApiWithProvider) -> None:
    """By default the job would ask for the bill of each day since the first usage."""
    connection = await asyncpg.connect(**served.database.arguments())
    try:
        await connection.execute(
            "INSERT INTO corral_usage (provider_id, kind, cause, unit_price, quantity, estimated, started_earliest,"
            " started_latest, ended_earliest, ended_latest, confirmed_at, follows, product_name, region, billing_mode)"
            " SELECT 'old', 'gpu', 'orphan', 1, 1, false, at, at, at, at, at, false, '', '', ''"
            " FROM (SELECT now() - interval '3 days' AS at) AS earlier"
        )
        await queries_of(connection).enqueue("reconcile_bills", b"{}", 0)

        async def is_done() -> bool:
            return bool((await served.get("/api/jobs?type=reconcile_bills&status=completed")).json["jobs"])

        await until(is_done, what="the job")
        assert await connection.fetchval("SELECT count(*) FROM corral_reconciliations") == 0
        assert "bills" not in served.sim.calls()["endpoints"]
    finally:
        await connection.close()


@proves("LOG_LEVEL")
async def _the_log_tells_also_the_least_important(served: ServedApiWithProvider) -> None:
    await served.get("/health/live")

    await until(lambda: any("request.served" in line for line in served.corral.lines), what="a line")


@proves("CORRAL_TRACING")
async def _spans_go_to_the_collector(served: ServedApiWithProvider) -> None:
    await served.get("/api/instances")
    await until(lambda: _messages(served, "/collector/v1/traces"), what="spans")


def test_every_setting_has_its_proof() -> None:
    """A setting without one is dead, or will be."""
    assert set(PROOFS) == {shown.name for shown in load({}).shown}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.allow_hosts(["127.0.0.1", "127.0.0.2"])
@pytest.mark.parametrize("proof", dict.fromkeys(PROOFS.values()), ids=lambda proof: proof.__name__.strip("_"))
async def test_the_setting_has_its_effect(served: ServedApiWithProvider, proof: Proof) -> None:
    """See the proof."""
    await proof(served)
