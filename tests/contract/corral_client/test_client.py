"""The SDK on the real service, as a program uses it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, closing
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from support.http.servers import HttpAnswers, http_answer, unused_port
from support.http.servers import serving as answering
from support.processes.process import Running, clean_environment, quicken, serving
from support.provider.wire import wired

import corral_client
from corral_client import (
    Ambiguous,
    AsyncClient,
    Client,
    ConnectionFailed,
    CorralApiError,
    Event,
    InstanceFailed,
    Invalid,
    NotFound,
    OutOfStock,
    Progress,
    ServerError,
    Unauthorised,
    WaitTimeout,
)
from corral_client.models.orders import Order

GPU = "RTX 4090 24GB"
UBUNTU = "150020"
BROKEN_IMAGE = "150034"
SLOW = re.compile(r"Executing <.* took \d+\.\d+ seconds$")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corral(short_dir: Path) -> AsyncGenerator[Running]:
    """One service for all tests of this file; each uses names of its own."""
    data_dir = short_dir / "sdk" / ".corral"
    async with serving(data_dir, LOG_LEVEL="warning") as running:
        await quicken(data_dir)
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(corral: Running) -> AsyncGenerator[AsyncClient]:
    async with AsyncClient(corral.address) as client:
        yield client


def order(name: str, template_id: str | int = UBUNTU) -> Order:
    return Order(name=name, product_name=GPU, template_id=template_id)


def pauses(client: AsyncClient) -> list[float]:
    """The pauses *client* makes from here on, which then take no time."""
    made: list[float] = []

    async def note(seconds: float) -> None:
        made.append(seconds)

    client._transport.sleep = note
    return made


async def test_an_instance_is_ordered_waited_for_found_and_deleted(client: AsyncClient) -> None:
    """The whole life, in the words of the page that teaches it."""
    seen: list[Progress] = []

    handle = await client.instances.create(**order("life"))
    ready = await handle.wait_until_ready(timeout=60, on_progress=seen.append)
    found = await client.instances.get("life")
    by_provider = await client.instances.get(str(ready.novita_instance_id))
    leaving = await client.instances.delete("life")
    gone = await handle.wait_until_gone(timeout=60)

    statuses = list(dict.fromkeys(progress.instance.status for progress in seen))
    assert handle.created is not None
    assert handle.created.price == 0.18
    assert statuses[-1] == "ready"
    assert found.id == by_provider.id == ready.id == leaving.id == handle.id
    assert str(ready.connection_details.ssh).startswith("ssh ")
    assert gone.is_gone
    assert (await client.instances.get("life")).id == handle.id


async def test_a_product_that_is_sold_out_raises_its_own_error_at_once(
    client: AsyncClient, corral: Running, short_dir: Path
) -> None:
    """Worth a retry in minutes, not in milliseconds; one that is only too expensive is not out of stock."""
    waited, gpu = pauses(client), "A100 SXM 80GB"
    simulator = (short_dir / "sdk" / ".corral" / "simulator" / "address").read_text().strip()
    async with aiohttp.ClientSession() as session:
        for cluster in ("as-sgp-2", "us-dallas-1", "sa-brazil-1"):
            sold_out = {"productId": "A100-80GB.14c240g", "clusterId": cluster, "gpus": 0}
            async with session.post(f"{simulator}/_sim/stock", json=sold_out) as response:
                assert response.status == 200, await response.text()
    await corral.ask("POST", "/api/cache/clear", json={})

    with pytest.raises(OutOfStock) as sold_out_everywhere:
        await client.instances.create(name="later", product_name=gpu, template_id=UBUNTU)
    with pytest.raises(NotFound) as too_expensive:
        await client.instances.create(name="cheap", product_name=GPU, template_id=UBUNTU, max_price=0.01)

    assert sold_out_everywhere.value.retryable
    assert isinstance(sold_out_everywhere.value.details["tried"], list)
    assert (type(too_expensive.value), too_expensive.value.retryable) == (NotFound, False)
    assert waited == []


async def test_an_instance_is_stopped_started_and_restarted(client: AsyncClient) -> None:
    """Each is asked for at once and can be waited for; what does not fit its status is refused by name."""
    made = await client.instances.create(**order("rest"))
    await made.wait_until_ready(timeout=60)
    with pytest.raises(Invalid) as running:
        await client.instances.start("rest")

    stopping = await client.instances.stop("rest")
    stopped = await stopping.wait_until_stopped(timeout=60)
    resting = await client.instances.stop("rest")
    with pytest.raises(InstanceFailed) as waited:
        await client.instances.wait_until_ready("rest", timeout=60)
    starting = await client.instances.start("rest", target_port=22)
    ready = await starting.wait_until_ready(timeout=60)
    restarting = await made.restart()
    again = await restarting.wait_until_ready(timeout=60)

    assert stopping.action is not None
    assert (stopping.action.status, stopped.status) == ("stopping", "exited")
    assert running.value.code == "INSTANCE_NOT_STARTABLE"
    assert resting.action is not None
    assert (resting.action.status, resting.action.operation_id) == ("exited", stopping.action.operation_id)
    assert waited.value.code == "INSTANCE_STOPPED"
    assert starting.action is not None
    assert (starting.action.status, ready.status, again.status) == ("starting", "ready", "ready")
    kinds = [operation.kind for operation in await client.instances.operations("rest")]
    assert kinds == ["restart", "start", "stop", "create"]
    assert {ready.id, again.id, stopped.id} == {made.id}


async def test_the_sync_client_has_the_same_surface(corral: Running) -> None:
    """Callbacks run on the caller's thread."""
    threads: set[int] = set()

    def use() -> list[str]:
        with Client(corral.address) as client:
            handle = client.instances.create(**order("sync", int(UBUNTU)))
            ready = handle.wait_until_ready(timeout=60, on_progress=lambda _: threads.add(threading.get_ident()))
            named = [instance.id for instance in client.instances.list(name="sync", page_size=1)]
            with closing(client.events.follow(after=0, instance_id=handle.id)) as events:
                first = next(events)
            handle.delete()
            assert threads == {threading.get_ident()}
            assert client.health().is_healthy
            assert client.templates.get(UBUNTU).ports
            assert first.operation_id is not None
            assert client.operations.get(first.operation_id).kind == "create"
            assert [operation.kind for operation in client.instances.operations(handle.id)] == ["delete", "create"]
            assert client.jobs.stats().total_jobs
            return [ready.id, *named, first.instance_id or ""]

    assert len(set(await asyncio.to_thread(use))) == 1


async def test_both_clients_offer_the_same() -> None:
    """Both clients have the same methods."""
    alone = Client(f"http://127.0.0.1:{unused_port()}")
    surfaces = [
        {(noun, verb) for noun in vars(client) if not noun.startswith("_") for verb in _public(getattr(client, noun))}
        for client in (AsyncClient(), alone)
    ]
    alone.close()

    assert surfaces[0] == surfaces[1]
    assert all(getattr(corral_client, name) for name in corral_client.__all__)


async def test_a_plan_is_returned_and_nothing_is_created(client: AsyncClient) -> None:
    """What it would cost, and why not elsewhere."""
    plan = await client.instances.plan(name="planned", product_name=GPU, template_id=UBUNTU, gpu_num=2)

    assert plan.candidates[0].price == pytest.approx(0.36)
    assert [instance async for instance in client.instances.list(name="planned")] == []


async def test_a_failed_instance_says_why(client: AsyncClient) -> None:
    """The code for the program, the message for its log."""
    handle = await client.instances.create(**order("fails", BROKEN_IMAGE))

    with pytest.raises(InstanceFailed, match="manifest unknown") as failed:
        await handle.wait_until_ready(timeout=60)

    assert failed.value.code == "PROVISIONING_FAILED"
    assert failed.value.instance_id == handle.id


async def test_a_wait_ends_in_time_and_leaves_the_work_alone(client: AsyncClient) -> None:
    """A program's patience is not the instance's."""
    handle = await client.instances.create(**order("slow"))

    with pytest.raises(WaitTimeout, match="is still"):
        await handle.wait_until_ready(timeout=0)

    assert (await handle.get()).error is None


async def test_errors_say_all_they_know(client: AsyncClient) -> None:
    """One class a kind; every bad field at once."""
    with pytest.raises(Invalid) as invalid:
        await client.instances.create(name="bad name", product_name=GPU, template_id=UBUNTU, gpu_num=9)
    with pytest.raises(NotFound) as missing:
        await client.instances.get("missing")
    with pytest.raises(NotFound, match="TEMPLATE_NOT_FOUND"):
        await client.instances.create(**order("x", "1"))

    assert {error.field for error in invalid.value.validation_errors} == {"name", "gpuNum"}
    assert (missing.value.status, missing.value.code) == (404, "INSTANCE_NOT_FOUND")
    assert str(missing.value.request_id) in str(missing.value)


async def test_a_name_of_two_is_not_guessed(client: AsyncClient) -> None:
    """Deleting the wrong one would be dear."""
    ids = [(await client.instances.create(**order("twin"))).id for _ in range(2)]

    with pytest.raises(Ambiguous) as ambiguous:
        await client.instances.delete("twin")
    await client.instances.delete(ids[0])

    assert set(ambiguous.value.ids) == set(ids)
    assert (await client.instances.get("twin")).id == ids[1]


async def test_a_create_with_a_lost_answer_makes_one_instance(corral: Running) -> None:
    """It was done; the second attempt carries the same key and gets the first answer."""
    async with wired(corral.address, 0) as (wire, address), AsyncClient(address) as client:
        handle = await client.instances.create(**order("lost"))
        made = [instance.id async for instance in client.instances.list(name="lost")]

    keys = wire.header("Idempotency-Key")
    assert made == [handle.id]
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_a_key_of_the_callers_own_is_kept(client: AsyncClient) -> None:
    """A program that is restarted gets the same instance."""
    one = await client.instances.create(idempotency_key="job-7", **order("keyed"))
    two = await client.instances.create(idempotency_key="job-7", **order("keyed"))

    assert one.id == two.id


async def test_a_stream_that_is_cut_resumes_without_loss_or_repetition(corral: Running, client: AsyncClient) -> None:
    """In the middle of an event, more than once."""
    for _ in range(5):
        await client.instances.create(**order("streamed"))
    log = [event.seq async for event in client.events.list()]

    async with wired(corral.address, 1500, 900, 0) as (_, address), AsyncClient(address) as cut_off:
        pauses(cut_off)
        followed = await _first(cut_off, len(log))

    assert [event.seq for event in followed] == log


async def test_a_wait_survives_the_loss_of_its_stream(corral: Running) -> None:
    """Looks go on without it."""
    async with wired(corral.address, 4000, 0, 0, 0) as (_, address), AsyncClient(address) as client:
        handle = await client.instances.create(**order("unheard"))

        assert (await handle.wait_until_ready(timeout=60)).is_ready


async def test_a_service_that_asks_for_a_moment_gets_it() -> None:
    """As long as it says; then the request is repeated."""
    busy = http_answer(503, _problem("DATABASE_UNAVAILABLE", retryable=True), Retry_After="7")
    well = http_answer(200, b'{"products":[]}', content_type="application/json")
    async with answering(HttpAnswers(busy, busy, well)) as port, AsyncClient(f"http://127.0.0.1:{port}") as client:
        made = pauses(client)
        products = await client.products.list()

    assert (products, made) == ([], [7.0, 7.0])


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        (http_answer(503, b"<html>", Retry_After="1"), 3),
        (http_answer(503, b"<html>", Retry_After="61"), 1),
        (http_answer(500, b"<html>"), 1),
        (http_answer(429, b""), 3),
        (http_answer(200, b"<html>"), 1),
    ],
)
async def test_retries_end(answer: bytes, requests: int) -> None:
    """After `max_retries`, at once when the same would fail again, or when the wait would be too long."""
    server = HttpAnswers(answer)
    async with answering(server) as port, AsyncClient(f"http://127.0.0.1:{port}", max_retries=2) as client:
        pauses(client)
        with pytest.raises(CorralApiError):
            await client.jobs.stats()

    assert len(server.heads) == requests


async def test_a_list_of_a_service_of_an_earlier_release_ends() -> None:
    """That release does not know `after` and returns the first page again; the rest is then read by `offset`."""
    first, rest = _page_of("inst_c", "inst_b"), _page_of("inst_a")
    server = HttpAnswers(first, first, rest)
    async with answering(server) as port, AsyncClient(f"http://127.0.0.1:{port}") as client:
        listed = [instance.id async for instance in client.instances.list(page_size=2)]

    assert listed == ["inst_c", "inst_b", "inst_a"]
    assert ["offset=2" in head for head in server.heads] == [False, False, True]


async def test_an_unreachable_service_is_reported() -> None:
    """Also what was tried."""
    port = unused_port()
    async with AsyncClient(f"http://127.0.0.1:{port}", max_retries=1) as client:
        made = pauses(client)
        with pytest.raises(ConnectionFailed, match=f"http://127.0.0.1:{port} cannot be reached"):
            await client.health()

    assert len(made) == 1


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://127.0.0.1:99999", "http://127.0.0.1:80 x"])
async def test_an_address_that_cannot_be_called_is_an_error_of_ours(url: str) -> None:
    """And of no library, also while events are followed."""
    async with AsyncClient(url, "corral_abc") as client:
        with pytest.raises(ConnectionFailed, match="not an http:// address"):
            await client.health()
        with pytest.raises(ConnectionFailed, match="not an http:// address"):
            await anext(client.events.follow())


async def test_an_address_with_a_password_is_refused_without_naming_it() -> None:
    """The key takes the place of its header."""
    async with AsyncClient("http://user:pass-word@127.0.0.1", "corral_abc") as client:
        with pytest.raises(ConnectionFailed, match="must not have a user name or a password") as raised:
            await client.health()

    assert "pass-word" not in str(raised.value)


async def test_a_redirect_is_not_followed_and_its_target_is_named() -> None:
    """As from a proxy that redirects to https; the stream of events does not follow it either."""
    elsewhere = HttpAnswers(http_answer(200, b"{}"))
    async with answering(elsewhere) as other:
        moved = http_answer(307, b"", Location=f"http://127.0.0.1:{other}/api")
        async with answering(HttpAnswers(moved)) as port, AsyncClient(f"http://127.0.0.1:{port}", "k") as client:
            for call in (client.whoami(), anext(client.events.follow())):
                with pytest.raises(Invalid, match=f"redirects to http://127.0.0.1:{other}/api"):
                    await call

    assert elsewhere.heads == []


async def test_a_key_that_no_header_can_carry_is_an_error_of_ours() -> None:
    """As read from a file with other line ends; spaces and line ends around it do not count."""
    server = HttpAnswers(http_answer(200, b'{"templates": []}'))
    async with answering(server) as port:
        url = f"http://127.0.0.1:{port}"
        async with AsyncClient(url, "corral_abc\r\n") as client:
            await client.templates.list()
        for key in ("corral_a\nb", "corral_\u00e9"):
            async with AsyncClient(url, key) as client:
                with pytest.raises(Unauthorised, match="printable ASCII") as refused:
                    await client.templates.list()
            assert key not in str(refused.value)
        async with AsyncClient(url) as client:
            with pytest.raises(Invalid, match="idempotency key"):
                await client.instances.create(idempotency_key="a\nb", name="a", product_name=GPU, template_id=UBUNTU)

    assert server.header("authorization") == "Bearer corral_abc"
    assert len(server.heads) == 1


async def test_health_is_returned_also_when_a_part_is_down() -> None:
    """An answer, not an error."""
    body = b'{"status":"unhealthy","timestamp":"2026-01-01T00:00:00.000Z","uptime":1,"version":"1","new":true}'
    async with (
        answering(HttpAnswers(http_answer(503, body), http_answer(503, b"busy"))) as port,
        AsyncClient(f"http://127.0.0.1:{port}", max_retries=0) as client,
    ):
        assert not (await client.health()).is_healthy
        with pytest.raises(ServerError):
            await client.health()


async def test_the_python_page_is_correct(corral: Running) -> None:
    """Every block, run as it stands but for the address."""
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "python.md").read_text()

    async def run(block: str) -> tuple[int | None, str]:
        program = re.sub(r"Client\((?=\)|timeout)", f"Client(base_url={corral.address!r}, ", block)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-X", "dev", "-c", program),
            env=clean_environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        assert output
        return process.returncode, _complaints(errors)

    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    assert await asyncio.gather(*map(run, blocks)) == [(0, "")] * 7


def _complaints(errors: bytes) -> str:
    """What a program in development mode complained of; that something was slow is the machine's doing."""
    return "".join(line for line in errors.decode().splitlines(keepends=True) if not SLOW.match(line))


@pytest.mark.parametrize("ending", ["client.close()", "del client", "raise SystemExit(0)"])
async def test_a_client_leaves_nothing_behind(corral: Running, client: AsyncClient, ending: str) -> None:
    """However it ends, also in the middle of a wait and a stream."""
    handle = await client.instances.create(**order("left"))
    program = f"""
from corral_client import Client
client = Client({corral.address!r})
events = client.events.follow(after=0)
watching = client.instances.watch({handle.id!r})
next(events), next(watching)
{ending}
"""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-X", "dev", "-c", program),
        env=clean_environment(),
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()

    assert (process.returncode, _complaints(errors)) == (0, "")


async def _first(client: AsyncClient, count: int) -> Sequence[Event]:
    found: list[Event] = []
    async with aclosing(client.events.follow(after=0)) as events:
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


def _public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def _problem(code: str, *, retryable: bool) -> bytes:
    reported = "true" if retryable else "false"
    return f'{{"error":{{"code":"{code}","message":"not now","requestId":"req_1","retryable":{reported}}}}}'.encode()


def _page_of(*ids: str) -> bytes:
    """The response with the instances *ids*."""
    shown = {"name": "n", "status": "ready", "gpuNum": 1, "rootfsSize": 60, "region": "R", "productName": GPU}
    late = {"templateId": UBUNTU, "billingMode": "spot", "createdAt": "2030-01-01T00:00:00.000Z"}
    page = {"instances": [{"id": each, **shown, **late} for each in ids], "total": 3}
    return http_answer(200, json.dumps(page).encode(), content_type="application/json")
