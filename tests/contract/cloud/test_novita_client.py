"""The provider's client against the provider's simulator, over HTTP, with every quirk it can be given."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest
from support.clock.racing import RacingClock
from support.provider.guarding import KEY, Guarding, guarding

from corral.base.log import configure_logging
from corral.cloud.port import Credentials, ProviderCreate
from corral.domain.errors import (
    CloudError,
    CloudRefusedError,
    CloudShortageError,
    CloudTransientError,
    CloudUnknownError,
)
from corral.domain.machine.access import credentials
from corral.domain.observation.sighting import ProviderInstance, Sighting
from corral.domain.placement.catalog import (
    BillingMode,
    EnvironmentVariable,
    PortKind,
    Template,
    TemplateChannel,
    TemplatePort,
)
from novitasim.testing import Simulated, start_simulator

SECRET = "hush-hush-value"
TEMPLATE = Template(
    id="1",
    name="t",
    image="docker.io/acme/app:1.2",
    image_auth_id=None,
    ports=(TemplatePort(port=8080, kind=PortKind.HTTP), TemplatePort(port=22, kind=PortKind.TCP)),
    envs=(EnvironmentVariable(key="TOKEN", value=SECRET),),
    tools=(),
    start_command="",
    entrypoint="",
    min_cuda_version="12.4",
)


def order(name: str = "corral-a1", *, template: Template = TEMPLATE, **changes: object) -> ProviderCreate:
    wanted = ProviderCreate(
        name=name,
        product_id="4090.16c62g",
        cluster_id="us-ca-6",
        gpu_num=1,
        rootfs_gb=60,
        billing_mode=BillingMode.ON_DEMAND,
        template=template,
    )
    return replace(wanted, **changes)  # type: ignore[arg-type]  # each test names fields that exist


@asynccontextmanager
async def stage(
    quirks: Mapping[str, object] | None = None,
    *,
    keys: frozenset[str] = frozenset(),
    fixed: int | None = 100_000,
    most_retries: int = 3,
    timeout_seconds: float = 10.0,
    key: str = KEY,
    **more: object,
) -> AsyncGenerator[tuple[Simulated, Guarding, RacingClock]]:
    """A simulator and a client with one clock."""
    async with start_simulator(keys=keys, stock=2000) as sim:
        sim.set(**(quirks or {}), **more)
        clock = RacingClock(also=sim.advance)
        async with (
            guarding(
                sim.base_url, clock, fixed=fixed, most_retries=most_retries, timeout_seconds=timeout_seconds, key=key
            ) as parts,
            clock.racing(is_busy=parts.is_busy),
        ):
            yield sim, parts, clock


async def test_the_catalog_is_read_in_our_words() -> None:
    """Display names for regions, micro-USD for prices, ids that no name gives away."""
    async with stage() as (_, parts, _clock):
        clusters = {cluster.region: cluster.id for cluster in await parts.cloud.clusters()}
        everywhere = await parts.cloud.products(cluster_id=None, billing_mode=BillingMode.SPOT)
        here = await parts.cloud.products(cluster_id="us-ca-6", billing_mode=BillingMode.ON_DEMAND)

    assert clusters["CN-HK-01"] == "cn-hongkong-1"
    assert {product.name for product in everywhere} >= {"RTX 4090 24GB"}
    assert all(product.spot_micro_usd for product in everywhere if product.name == "RTX 4090 24GB")
    assert [product.on_demand_micro_usd for product in here if product.id == "4090.16c62g"] == [350_000]


@pytest.mark.parametrize("base", [0, 1])
async def test_templates_are_listed_over_all_pages_by_channel(base: int) -> None:
    """However the provider numbers its pages; those for other things than instances are left out."""
    async with stage(template_page_base=base) as (sim, parts, _clock):
        before = {t.id for t in await parts.cloud.templates(TemplateChannel.PRIVATE)}
        async with aiohttp.ClientSession() as client:
            for number in range(120):
                made = {"name": f"t{number}", "image": "i:1", "type": "serverless" if number == 7 else "instance"}
                url = f"{sim.base_url}/v1/template/create"
                async with client.post(url, json={"template": made}, headers={"authorization": f"Bearer {KEY}"}) as r:
                    assert r.status == 200
        private = await parts.cloud.templates(TemplateChannel.PRIVATE)
        official = await parts.cloud.templates(TemplateChannel.OFFICIAL)

    added = {t.name for t in private if t.id not in before}
    assert added == {f"t{number}" for number in range(120)} - {"t7"}
    assert {t.channel for t in private} == {TemplateChannel.PRIVATE}
    assert {t.channel for t in official} == {TemplateChannel.OFFICIAL}
    assert "107672" in {t.id for t in official}


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize("words", ["not found", "not fount"])
async def test_not_found_is_understood_however_it_is_said(status: int, words: str) -> None:
    """400 by the documentation, 404 by habit, and a spelling of its own."""
    async with stage(not_found_status=status, not_found_words=words) as (_, parts, _clock):
        with pytest.raises(CloudRefusedError) as template:
            await parts.cloud.template("999999")
        with pytest.raises(CloudRefusedError) as started:
            await parts.cloud.start("0000000000000000")
        missing = await parts.cloud.instance("0000000000000000")
        await parts.cloud.delete("0000000000000000")

    assert (template.value.code, started.value.code) == ("TEMPLATE_NOT_FOUND", "INSTANCE_NOT_FOUND")
    assert missing is None


@pytest.mark.parametrize("status", [401, 403])
async def test_a_bad_key_is_reported_as_such_and_not_retried(status: int) -> None:
    """Asking again with the same key is useless."""
    async with stage(keys=frozenset({"another"}), bad_key_status=status) as (_, parts, _clock):
        with pytest.raises(CloudRefusedError) as caught:
            await parts.cloud.clusters()

    assert (caught.value.code, parts.counted.sent) == ("AUTHENTICATION_FAILED", 1)


@pytest.mark.parametrize("quirks", [{}, {"pending_first": True, "extras_in_get": False, "node_shape": "array"}])
async def test_a_life_from_create_to_gone(quirks: dict[str, object]) -> None:
    """Created, booted, looked at, stopped, started, deleted, gone."""
    async with stage(quirks) as (sim, parts, clock):
        found = await parts.cloud.create(order())
        booting = await look(parts, found)
        await clock.sleep(10)
        running = await look(parts, found)
        await parts.cloud.restart(found)
        restarting = await look(parts, found)
        await clock.sleep(10)
        await parts.cloud.stop(found)
        stopping = await look(parts, found)
        await clock.sleep(10)
        exited = await look(parts, found)
        await parts.cloud.start(found)
        await clock.sleep(10)
        again = await look(parts, found)
        await parts.cloud.delete(found)
        removing = await look(parts, found)
        await clock.sleep(3)
        removed = await parts.cloud.instance(found)
        await clock.sleep(30)
        gone = await parts.cloud.instance(found)
        bill = sim.billed_at_once("corral-a1")

    words = [each.sighting for each in (booting, running, restarting, stopping, exited, again, removing)]
    assert words == [
        Sighting.BOOTING,
        Sighting.RUNNING,
        Sighting.RESTARTING,
        Sighting.STOPPING,
        Sighting.EXITED,
        Sighting.RUNNING,
        Sighting.REMOVING,
    ]
    assert removed is None or removed.sighting is Sighting.ABSENT
    assert gone is None
    assert bill == 1
    assert running.env_names == ("TOKEN",)
    assert {(end.port, end.kind, end.address is None) for end in running.endpoints} == {
        (8080, PortKind.HTTP, False),
        (22, PortKind.TCP, False),
    }
    assert running.connection is not None
    assert running.connection.ssh_command


async def look(parts: Guarding, found: str) -> ProviderInstance:
    seen = await parts.cloud.instance(found)
    assert seen is not None
    return seen


async def test_no_stock_and_no_money_are_distinguished() -> None:
    """One asks for the next offer, the other for a person."""
    async with stage(instance_limit=1) as (sim, parts, _clock):
        await parts.cloud.create(order("one"))
        with pytest.raises(CloudRefusedError) as money:
            await parts.cloud.create(order("two"))
        sim.set(instance_limit=0)
        sim.set_stock("4090.16c62g", "us-ca-6", 0)
        with pytest.raises(CloudShortageError) as stock:
            await parts.cloud.create(order("three"))

    assert (money.value.code, stock.value.code) == ("INSUFFICIENT_BALANCE", "RESOURCE_CONSTRAINTS")


@pytest.mark.parametrize("reason", ["CONFLICT", "REQUEST", "OPERATION_LIMIT"])
async def test_a_wrong_state_is_an_unknown_outcome(reason: str) -> None:
    """The provider often carried it out all the same."""
    async with stage(invalid_state_reason=reason) as (_, parts, _clock):
        found = await parts.cloud.create(order())
        with pytest.raises(CloudUnknownError):
            await parts.cloud.start(found)


async def test_private_images_by_id_or_by_login() -> None:
    """The id is sent first; where it is refused, the login, which is read again."""
    private = replace(TEMPLATE, image_auth_id="3f0c9d0e")
    async with stage(image_auth_id="refused") as (sim, parts, clock):
        with pytest.raises(CloudRefusedError) as refused:
            await parts.cloud.create(order(template=private))
        login = await parts.cloud.registry_credentials("3f0c9d0e")
        none = await parts.cloud.registry_credentials("missing")
        found = await parts.cloud.create(order(template=private, credentials=login))
        await clock.sleep(10)
        status = sim.status(found)
        sim.set(image_auth_id="accepted")
        with pytest.raises(CloudRefusedError) as missing:
            await parts.cloud.create(order(template=replace(TEMPLATE, image_auth_id="missing")))

    assert (refused.value.code, missing.value.code) == ("REGISTRY_AUTH_NOT_FOUND", "REGISTRY_AUTH_NOT_FOUND")
    assert isinstance(login, Credentials)
    assert none is None
    assert status == "running"


async def test_a_bad_template_says_what_is_wrong_with_it() -> None:
    """Before an order exists."""
    async with stage() as (sim, parts, _clock):
        odd = sim.odd_template({"Id": "777", "name": "odd", "image": "", "ports": [{"type": "http", "ports": [2222]}]})
        with pytest.raises(CloudRefusedError) as caught:
            await parts.cloud.template(odd)

    assert caught.value.code == "INVALID_TEMPLATE"
    assert "image" in caught.value.message
    assert "2222" in caught.value.message


@pytest.mark.parametrize(
    "quirks",
    [
        {},
        {"page_base": 1},
        {"page_size_cap": 30},
        {"page_size_cap": 0},
        {"list_order": "oldest"},
        {"list_order": "oldest", "page_base": 1, "page_size_cap": 7, "extras_in_list": False},
    ],
)
async def test_a_listing_is_complete_whatever_the_paging(quirks: dict[str, object]) -> None:
    """0- or 1-based, capped or not, newest or oldest first."""
    async with stage(quirks) as (sim, parts, clock):
        for n in range(130):
            await parts.cloud.create(order(f"corral-{n}"))
            sim.advance(1)
        await clock.sleep(10)
        listing = await parts.cloud.instances()

    assert listing.complete
    assert sorted(seen.name for seen in listing.instances) == sorted(f"corral-{n}" for n in range(130))
    assert {seen.sighting for seen in listing.instances} == {Sighting.RUNNING}
    assert all(seen.connection is None for seen in listing.instances)


async def test_a_thousand_instances_cost_eleven_calls() -> None:
    """One for each page, and one to be sure."""
    async with stage() as (sim, parts, _clock):
        for n in range(1000):
            await parts.cloud.create(order(f"corral-{n}"))
            if n % 10 == 0:
                sim.advance(1)
        before = sim.calls()["endpoints"].get("list", {"total": 0})["total"]
        listing = await parts.cloud.instances()
        calls = sim.calls()["endpoints"]["list"]["total"] - before

    assert (len(listing.instances), listing.complete, calls, listing.pages) == (1000, True, 11, 11)


@pytest.mark.parametrize("limit", [30, 100])
async def test_a_long_listing_on_a_small_budget_comes_to_its_end_and_starves_no_other_read(limit: int) -> None:
    """It takes minutes; a page that gave up would spoil it, and the calls that the others cost."""
    async with stage({"page_size_cap": 3}, fixed=limit) as (sim, parts, clock):
        found = ""
        for n in range(150):
            found = await sim.create(f"corral-{n}")
            sim.advance(5)
        began = clock.monotonic()
        listing_all = asyncio.create_task(parts.cloud.instances())
        looks = await asyncio.gather(*(_after(clock, 20 * n, parts, found) for n in range(1, 4)))
        listing = await listing_all
        took = clock.monotonic() - began
        calls = sim.calls()

    assert (len(listing.instances), listing.complete, listing.pages) == (150, True, 51)
    assert [seen.id for seen in looks] == [found] * 3
    assert took > 25
    assert calls["busiest_minute"] <= limit


async def _after(clock: RacingClock, seconds: float, parts: Guarding, provider_id: str) -> ProviderInstance:
    await clock.sleep(seconds)
    return await look(parts, provider_id)


@pytest.mark.parametrize(
    ("fault", "error", "created"),
    [
        ("lost_reply", CloudUnknownError, 1),
        ("500_but_created", CloudUnknownError, 1),
        ("error_500", CloudUnknownError, 0),
        ("garbage", CloudUnknownError, 1),
        ("truncated", CloudUnknownError, 1),
        ("wrong_shape", CloudUnknownError, 1),
        ("endless_body", CloudUnknownError, 1),
        ("huge_body", CloudUnknownError, 1),
        ("gzip_bomb", CloudUnknownError, 1),
        ("hang", CloudUnknownError, 0),
        ("refuse", CloudUnknownError, 0),
        ("throttle", None, 1),
        ("html", None, 1),
    ],
)
async def test_a_create_is_never_doubled_by_any_fault(fault: str, error: type[CloudError] | None, created: int) -> None:
    """Whatever may have happened is not repeated; what certainly did not, is."""
    async with stage(timeout_seconds=0.3 if fault == "hang" else 10.0) as (sim, parts, _clock):
        sim.fault(fault, on="create")
        if error is None:
            await parts.cloud.create(order())
        else:
            with pytest.raises(error):
                await parts.cloud.create(order())

        assert len(sim.instances("corral-a1")) == created


@pytest.mark.parametrize(
    "fault",
    [
        "error_500",
        "refuse",
        "throttle",
        "html",
        "garbage",
        "truncated",
        "wrong_shape",
        "huge_body",
        "gzip_bomb",
        "lost_reply",
    ],
)
async def test_a_read_survives_any_fault(fault: str) -> None:
    """It is asked again."""
    async with stage() as (sim, parts, _clock):
        await parts.cloud.create(order())
        sim.fault(fault, on="list")
        listing = await parts.cloud.instances()

    assert [seen.name for seen in listing.instances] == ["corral-a1"]
    assert listing.complete


@pytest.mark.parametrize(("retry_after", "limit"), [("none", 600), ("seconds", 1000), ("date", 300)])
async def test_a_thousand_reads_succeed_within_the_budget_though_half_of_the_answers_fail(
    retry_after: str, limit: int
) -> None:
    """No call is lost, and no minute of the provider's own count holds more than the limit."""
    async with stage(fixed=limit, most_retries=10) as (sim, parts, clock):
        found = await parts.cloud.create(order())
        sim.fault("error_500", on="get", count=None, probability=0.3)
        sim.fault("throttle", on="get", count=None, probability=0.2, retry_after=retry_after, seconds=1)
        outcomes: Counter[str] = Counter()

        async def read_until_it_succeeds() -> str:
            # As the engine does: an outage is a later look, not a failure.
            while True:
                try:
                    seen = await look(parts, found)
                except CloudTransientError as later:
                    outcomes[later.code] += 1
                    await clock.sleep(later.retry_after_seconds or 1.0)
                else:
                    return seen.id

        seen = await asyncio.gather(*(read_until_it_succeeds() for _ in range(1000)))
        calls = sim.calls()

    assert seen == [found] * 1000
    assert calls["busiest_minute"] <= limit
    assert calls["endpoints"]["get"]["total"] > 1500
    assert {"200", "429", "500"} <= set(calls["endpoints"]["get"]["outcomes"])


async def test_the_budget_finds_the_provider_s_own_limit() -> None:
    """It comes down when throttled, and creates get through meanwhile."""
    async with stage(fixed=None, rate_limit_per_minute=60, most_retries=10) as (sim, parts, clock):
        found = await parts.cloud.create(order())
        before = parts.guard.snapshot().calls_per_minute

        async def read() -> None:
            while True:
                try:
                    await look(parts, found)
                except CloudTransientError as later:
                    await clock.sleep(later.retry_after_seconds or 1.0)
                else:
                    return

        reads = asyncio.gather(*(read() for _ in range(300)))
        await clock.sleep(5)
        await parts.cloud.create(order("corral-a2"))
        finished_before_reads = not reads.done()
        await reads
        after = parts.guard.snapshot().calls_per_minute

    assert before == 300
    assert after < 100
    assert finished_before_reads
    assert len(sim.instances("corral-a2")) == 1


async def test_no_secret_is_logged_whatever_happens() -> None:
    """At debug level, over successes and faults: neither the key, nor a password, nor a variable's value."""
    out = io.StringIO()
    configure_logging("debug", stream=out)
    private = replace(TEMPLATE, image_auth_id="3f0c9d0e")
    errors: list[CloudError] = []
    async with stage() as (sim, parts, clock):
        login = await parts.cloud.registry_credentials("3f0c9d0e")
        assert login is not None
        password = login.password
        found = await parts.cloud.create(order("corral-1", template=private, credentials=login))
        await clock.sleep(10)
        seen = await look(parts, found)
        access = await parts.cloud.machine_access(found)
        for fault in ("garbage", "error_500", "lost_reply", "html", "truncated", "throttle"):
            sim.fault(fault)
            try:
                await parts.cloud.create(order(f"corral-{fault}", template=private, credentials=login))
            except CloudError as error:
                errors.append(error)
            await parts.cloud.instances()
    assert seen.connection is not None

    assert access is not None
    assert access.ssh_password
    secrets = [KEY, SECRET, password, access.ssh_password]
    reported = out.getvalue() + "".join(f"{e!r} {e.details} {e.__cause__!r}" for e in errors) + repr(seen) + repr(login)
    reported += repr(access) + repr(credentials(access))
    assert len(errors) == 4
    assert "cloud.called" in reported
    assert [secret for secret in secrets if secret in reported] == []
