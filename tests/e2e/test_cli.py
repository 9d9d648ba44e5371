"""Instances from the shell: the installed command on a running service."""

from __future__ import annotations

import asyncio
import csv
import re
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from support.clock.waiting import until
from support.http.servers import HttpAnswers, http_answer, unused_port
from support.http.servers import serving as answering
from support.processes.process import CORRAL, Running, clean_environment, quicken, run, serving
from support.processes.terminal import on_terminal

from corral.cli.periods import ACCEPTED

GPU = ("--product", "RTX 4090 24GB")
UBUNTU = (*GPU, "--template", "150020")
NEVER_HEALTHY = (*GPU, "--template", "150033")
UNSEEN = ("--product", "RTX 5090 32GB", "--template", "150033")
"""Of a product that no other test makes ready, so that nothing is learnt about how long it takes."""
BROKEN_IMAGE = (*GPU, "--template", "150034")

BASH_TAB = """
eval "$(_CORRAL_COMPLETE=source_bash corral)"
COMP_WORDS=(corral show --url "$@" complete-) COMP_CWORD=$(($# + 3))
_corral_completion corral
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""What bash does at a press of Tab; it splits words at colons before that."""

pytestmark = pytest.mark.asyncio(loop_scope="module")

Shell = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corral(short_dir: Path) -> AsyncGenerator[Running]:
    """One service for all tests of this file; each uses names of its own."""
    data_dir = short_dir / "cli" / ".corral"
    async with serving(data_dir, LOG_LEVEL="warning", CORRAL_WEBHOOK_ALLOW_PRIVATE="true") as running:
        await quicken(data_dir)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sold_out(corral: Running, short_dir: Path) -> tuple[str, ...]:
    """The options for a product that is sold out everywhere."""
    simulator = (short_dir / "cli" / ".corral" / "simulator" / "address").read_text().strip()
    async with aiohttp.ClientSession() as client:
        for cluster in ("as-sgp-2", "us-dallas-1", "sa-brazil-1"):
            empty = {"productId": "A100-80GB.14c240g", "clusterId": cluster, "gpus": 0}
            async with client.post(f"{simulator}/_sim/stock", json=empty) as response:
                assert response.status == 200, await response.text()
    await corral.ask("POST", "/api/cache/clear", json={})
    return "--product", "A100 SXM 80GB", "--template", "150020"


@pytest.fixture
def shell(corral: Running, tmp_path: Path) -> Shell:
    """Runs a command with pipes, which must never get an escape code."""

    async def run_piped(*arguments: str) -> tuple[int, str, str]:
        result = await run(*arguments, "--url", corral.address, cwd=tmp_path)
        assert "\x1b" not in result[1] + result[2]
        assert "Traceback" not in result[2]
        return result

    return run_piped


def read(output: str) -> Any:
    return msgspec.json.decode(output)


async def test_a_machine_from_the_shell(shell: Shell) -> None:
    """Create, look, log in, delete, in words."""
    created = await shell("create", "web", *UBUNTU)
    listed, shown, login, why = await asyncio.gather(
        shell("ls"), shell("show", "web"), shell("ssh", "web"), shell("why", "web")
    )
    removed = await shell("rm", "web", "--wait")
    left = await shell("ls", "--name", "web", "--json")

    assert (created[0], created[2]) == (0, "")
    assert re.search(r"^status +ready$", created[1], re.MULTILINE)
    assert re.search(r"^web +ready +RTX 4090 24GB +CN-HK-01 +\$0\.18/h +\d+[sm]$", listed[1], re.MULTILINE)
    assert shown[1].splitlines()[:2] == created[1].splitlines()[:2]
    assert re.fullmatch(r"ssh -p [0-9]+ root@127\.0\.0\.1\n", login[1])
    assert re.search(r"^because +healthy$", why[1], re.MULTILINE)
    assert re.search(r"^create +completed", why[1], re.MULTILINE)
    assert re.search(r"^next +watched in every listing of the provider; last seen at \d{4}-", why[1], re.MULTILINE)
    assert removed[0] == 0
    assert removed[1].endswith(" is gone\n")
    assert read(left[1]) == []


async def test_everything_speaks_json(shell: Shell) -> None:
    """One document each; events one a line, as they have no end."""
    created = read((await shell("create", "api", *UBUNTU, "--no-wait", "--json"))[1])
    instance_id = created["instanceId"]
    ready, plan, listed, products, jobs, templates = (
        read(output)
        for _, output, _ in await asyncio.gather(
            shell("wait", "api", "--json"),
            shell("create", "api", *UBUNTU, "--plan", "--json"),
            shell("ls", "--json"),
            shell("products", "4090", "--json"),
            shell("jobs", "--instance", "api", "--json"),
            shell("templates", "--json"),
        )
    )
    why, login, events = await asyncio.gather(
        shell("why", instance_id, "--json"), shell("ssh", "api", "--json"), shell("events", "api", "--json")
    )

    assert (ready["id"], ready["status"]) == (instance_id, "ready")
    assert plan["candidates"][0]["productName"] == "RTX 4090 24GB"
    assert instance_id in {instance["id"] for instance in listed}
    assert all("4090" in product["name"] for product in products)
    assert {job["payload"]["instanceId"] for job in jobs} == {instance_id}
    assert {template["channel"] for template in templates} >= {"official"}
    assert read(why[1])["operations"][0]["kind"] == "create"
    assert read(login[1])["ssh"].startswith("ssh ")
    happened = [read(line)["event"] for line in events[1].splitlines()]
    assert (happened[0], happened[-1]) == ("instance.created", "instance.ready")
    assert [one["status"] for one in read((await shell("rm", "api", "--json"))[1])] == ["deleting"]


async def test_a_machine_rests_and_wakes(shell: Shell) -> None:
    """Stop, start and restart, with and without waiting, in words and JSON."""
    await shell("create", "rest", *UBUNTU)
    stopped = await shell("stop", "rest", "--wait")
    again = await shell("stop", "rest")
    started = await shell("start", "rest", "--wait", "--json")
    restarted = await shell("restart", "rest", "--json")
    ready = await shell("wait", "rest", "--json")
    gone = await shell("rm", "rest", "--wait", "--json")

    assert (stopped[0], re.sub(r"inst_\w+", "ID", stopped[1])) == (0, "rest (ID) is exited\n")
    assert again == stopped
    assert [one["status"] for one in read(started[1])] == ["ready"]
    assert [one["status"] for one in read(restarted[1])] == ["restarting"]
    assert read(ready[1])["operation"]["kind"] == "restart"
    assert [one["status"] for one in read(gone[1])] == ["terminated"]


async def test_a_name_of_two_is_not_guessed_but_both_are_shown(shell: Shell) -> None:
    """Each with what distinguishes them; neither is changed."""
    one, other = [
        (await shell("create", "pair", *UBUNTU, "--another"))[1].split("id        ")[1].split("\n")[0] for _ in range(2)
    ]
    refused = await asyncio.gather(*(shell(verb, "pair") for verb in ("stop", "restart", "rm", "show", "ssh", "why")))
    left = read((await shell("ls", "--name", "pair", "--json"))[1])

    assert {code for code, _, _ in refused} == {1}
    for _, _, errors in refused:
        assert re.search(rf"^  {one}  ready  CN-HK-01  created \d", errors, re.MULTILINE)
        assert re.search(rf"^  {other}  ready  CN-HK-01  created \d", errors, re.MULTILINE)
    assert {instance["status"] for instance in left} == {"ready"}


async def test_a_failure_is_shown_with_the_next_step(shell: Shell) -> None:
    """Exit code 5, the provider's own words, and the next step."""
    code, output, errors = await shell("create", "broken", *BROKEN_IMAGE)
    why = await shell("why", "broken")

    assert (code, output) == (5, "")
    assert "PROVISIONING_FAILED" in errors
    assert "corral why inst_" in errors
    assert "manifest unknown" in why[1]
    assert re.search(r"^to do +The provider could not make it run", why[1], re.MULTILINE)


async def test_a_create_waits_for_capacity_as_long_as_it_says(shell: Shell, sold_out: tuple[str, ...]) -> None:
    """A product that is sold out is refused, unless the request says how long it waits."""
    sold_out = (*sold_out, "--no-wait")
    refused, at_once, unclear, accepted = await asyncio.gather(
        shell("create", "sold-out", *sold_out),
        shell("create", "at-once", *sold_out, "--until-available", "0"),
        shell("create", "unclear", *sold_out, "--until-available", "tomorrow"),
        shell("create", "later", *sold_out, "--until-available", "2h"),
    )

    assert (refused[0], at_once[0], unclear[0], accepted[0]) == (4, 4, 2, 0)
    assert "Wait for stock with --until-available 2h." in refused[2]
    assert "waitForCapacity: " in unclear[2]

    async def is_shown() -> bool:
        shown = read((await shell("show", accepted[1].strip(), "--json"))[1])
        return str(shown["reason"]).startswith("waiting for capacity")

    await until(is_shown, what="the reason of the wait")
    assert (await shell("rm", accepted[1].strip()))[0] == 0


async def test_a_wait_for_capacity_is_visible_and_survives_ctrl_c(
    shell: Shell, corral: Running, sold_out: tuple[str, ...]
) -> None:
    """The live line says what it waits for; the service continues, and the name cannot be ordered twice by accident."""
    sold_out = (*sold_out, "--until-available", "2h")
    code, text = await interrupted(
        *("create", "queued", *sold_out, "--url", corral.address), at="waiting for capacity", after="corral rm inst_"
    )
    again = await shell("create", "queued", *sold_out, "--no-wait")
    (left,) = read((await shell("ls", "--name", "queued", "--json"))[1])

    assert code == 130
    assert f"corral wait {left['id']} --url" in text
    assert left["status"] == "creating"
    assert again[0] == 2
    assert f"there is an instance 'queued' already ({left['id']}, creating, " in again[2]
    assert (await shell("rm", "queued"))[0] == 0


async def test_an_instance_ends_when_its_lease_says(shell: Shell) -> None:
    """What ends it is asked for, shown, put off, changed and removed; what cannot be is refused."""
    made = await shell("create", "leased", *UBUNTU, "--ttl", "8h", "--idle", "30m", "--timeout", "60")
    listed = await shell("ls", "--name", "leased")
    explained = await shell("why", "leased")
    extended = await shell("extend", "leased", "2h")
    later = await shell("lease", "leased")
    changed = await shell("lease", "leased", "--ttl", "none", "--stop-at", "0 20 * * 1-5", "--timezone", "Asia/Tokyo")
    removed = await shell("lease", "leased", "--none", "--json")
    refused = await shell("extend", "leased", "2h")
    nonsense = await shell("lease", "leased", "--idle", "soon")
    neither = await shell("extend", "leased")

    assert made[0] == 0, made
    assert re.search(r"^lease +at most 8h; idle for 30m; stop 10m after a notice$", made[1], re.MULTILINE)
    assert re.search(r"^NAME .* ENDS$", listed[1], re.MULTILINE)
    assert re.search(r"^leased .* in 7 h 5\d min: max duration$", listed[1], re.MULTILINE)
    assert re.search(r"ends in 7 h 5\d min: max duration, at ", explained[1])
    assert re.search(r"^leased \(inst_\w+\) is not ended before .*; it ends in 9 h 5\d min: max duration$", extended[1])
    assert re.search(r"^ends +in 9 h 5\d min: max duration, at ", later[1], re.MULTILINE)
    assert "idle for 30m; stop at 0 20 * * 1-5 (Asia/Tokyo); stop 10m after a notice" in changed[1]
    assert (removed[0], removed[1].strip()) == (0, "null")
    assert (refused[0], nonsense[0], neither[0]) == (1, 2, 2)
    assert "30m" in nonsense[2]
    assert "say how much longer" in neither[2]


async def test_a_name_in_use_needs_another(shell: Shell) -> None:
    """Also one of several; `--another` creates it nevertheless."""
    first = (await shell("create", "unique-2", *UBUNTU, "--no-wait"))[1].strip()
    refused = await shell("create", "unique", *UBUNTU, "--no-wait", "--count", "2")
    alone = read((await shell("ls", "--json"))[1])
    both = await shell("create", "unique", *UBUNTU, "--no-wait", "--count", "2", "--another", "--json")
    ready = await shell("create", "several", *UBUNTU, "--count", "2")

    assert (refused[0], refused[1]) == (2, "")
    assert f"there is an instance 'unique-2' already ({first}, " in refused[2]
    assert "unique-1" not in {instance["name"] for instance in alone}
    assert [made["status"] for made in read(both[1])] == ["creating", "creating"]
    assert [line.split()[:2] for line in ready[1].splitlines()[1:]] == [["several-1", "ready"], ["several-2", "ready"]]


async def test_the_order_of_a_create_reaches_the_service(shell: Shell) -> None:
    """Regions replace the usual ones, in their order; on demand comes after spot where it is allowed."""
    here, cheap = await asyncio.gather(
        shell("create", "x", *UBUNTU, "--plan", "--json", "--regions", "AS-SGP-02, CN-HK-01"),
        shell("create", "x", *UBUNTU, "--plan", "--json", "--spot-fallback", "--regions", "CN-HK-01"),
    )

    regions = dict.fromkeys(offer["region"] for offer in read(here[1])["candidates"])
    modes = dict.fromkeys(offer["billingMode"] for offer in read(cheap[1])["candidates"])
    assert (list(regions), list(modes)) == (["AS-SGP-02", "CN-HK-01"], ["spot", "onDemand"])


async def test_a_list_fits_the_terminal(shell: Shell, corral: Running) -> None:
    """At 80 and 60 columns every instance has one line; a pipe gets all of it, and how much was left out."""
    long = "a-name-of-more-than-forty-letters-is-shortened"
    for name in (long, "another"):
        await shell("create", name, *UBUNTU, "--no-wait")
    seen = dict[str, list[str]]()
    for command, columns in (("ls", 80), ("ls", 60), ("jobs", 60), ("audit", 60)):
        async with on_terminal(command, "--url", corral.address, columns=columns) as terminal:
            assert await terminal.end() == 0
            seen[f"{command} {columns}"] = terminal.text.splitlines()
    piped, wide = await asyncio.gather(shell("ls"), shell("ls", "-o", "wide"))

    async def says_how_many() -> bool:
        """Not while an instance that another test deleted is confirmed as gone."""
        one, total = await asyncio.gather(shell("ls", "--limit", "1"), shell("ls", "--json"))
        count = len(read(total[1]))
        return one[2] == f"1 of {count} shown; --limit {count} shows all\n"

    await until(says_how_many, what="the number of those that are not shown")

    for name, lines in seen.items():
        assert max(map(len, lines)) <= int(name.split()[1]), name
    assert not any("inst_" in line for line in seen["ls 80"] + seen["ls 60"])
    assert seen["ls 80"][0].split() == ["NAME", "STATUS", "GPU", "REGION", "PRICE", "AGE"]
    assert long in piped[1]
    assert re.search(rf"^{long} +inst_\w+ ", wide[1], re.MULTILINE)


async def test_costs_are_shown_forecast_and_exported(shell: Shell, corral: Running) -> None:
    """By label, in JSON, on narrow terminals, and as CSV that adds up; a time that is none is refused."""
    await shell("create", "priced", *UBUNTU, "--label", "payer=a-team-with-a-name-of-forty-letters-or-so", "--wait")
    shown, as_json, forecast, plain, focus, wrong, misplaced = await asyncio.gather(
        shell("costs", "--by", "label:payer", "--since", "mon"),
        shell("costs", "--by", "label:payer", "--json"),
        shell("costs", "forecast"),
        shell("costs", "export", "--since", "today"),
        shell("costs", "export", "--format", "focus"),
        shell("costs", "--since", "someday"),
        shell("costs", "--by", "day", "export"),
    )
    for columns in (80, 60):
        command = ("costs", "--by", "label:payer", "--url", corral.address)
        async with on_terminal(*command, columns=columns) as terminal:
            assert await terminal.end() == 0
            table = [line for line in terminal.text.splitlines() if "$" in line or "PAYER" in line]
        assert table[0].split()[:2] == ["PAYER", "COST"]
        assert max(len(line) for line in table if line.startswith(("PAYER", "a-team", "total"))) <= columns

    assert re.search(r"^PAYER +COST +SHARE +LOW +HIGH$", shown[1], re.MULTILINE)
    assert re.search(r"^a-team-with-a-name-of-forty-letters-or-so +<?\$0\.", shown[1], re.MULTILINE)
    assert re.search(r"^total +<?\$\d+\.\d\d +100 % ", shown[1], re.MULTILINE)
    assert re.search(r"^From \d{4}-\d\d-\d\d 00:00 to .* UTC\.$", shown[2], re.MULTILINE)
    report = read(as_json[1])
    assert report["total"]["low"] <= report["total"]["usd"] <= report["total"]["high"]
    assert "a-team-with-a-name-of-forty-letters-or-so" in {group["key"] for group in report["groups"]}
    assert re.search(r"^Now \$\d+\.\d\d/h\.$", forecast[1], re.MULTILINE)
    assert re.search(r"^Balance \$(10,000\.00|9,999\.\d\d); it ", forecast[1], re.MULTILINE)
    lines = list(csv.DictReader(plain[1].splitlines()))
    assert "priced" in {line["name"] for line in lines}
    assert next(csv.reader(focus[1].splitlines()))[:2] == ["BilledCost", "BillingAccountId"]
    assert (wrong[0], wrong[2]) == (2, f"corral: --since must be {ACCEPTED}\n")
    assert (misplaced[0], "belong after its name" in misplaced[2]) == (2, True)
    await shell("rm", "priced")


async def test_a_list_is_sorted_and_shows_the_columns_asked_for(shell: Shell) -> None:
    """A column that does not exist is refused with those that do."""
    for name in ("sorted-b", "sorted-a"):
        await shell("create", name, *UBUNTU, "--no-wait")
    rising, falling, unknown, status = await asyncio.gather(
        shell("ls", "--sort", "name", "--columns", "name"),
        shell("ls", "--sort", "-name", "--columns", "name,region"),
        shell("ls", "--columns", "colour"),
        shell("ls", "--status", "happy"),
    )

    names = rising[1].splitlines()[1:]
    assert names == sorted(names)
    assert names.index("sorted-a") < names.index("sorted-b")
    backwards = [line.split()[0] for line in falling[1].splitlines()[1:]]
    assert backwards == sorted(backwards, reverse=True)
    assert (unknown[0], "there are name, id, status, gpu" in unknown[2]) == (2, True)
    assert (status[0], " creating, starting, running, health_checking, " in status[2]) == (2, True)


async def test_an_interrupted_create_says_what_may_exist() -> None:
    """The request for the second was sent, and its answer did not come."""
    receipt: dict[str, object] = {
        "instanceId": "inst_first",
        "status": "creating",
        "operationId": "op_1",
        "productId": "4090",
    }
    receipt |= {"estimatedReadyTime": "2030-01-01T00:00:00Z", "region": "CN-HK-01", "price": 0.18}
    empty = {"instances": [], "total": 0, "limit": 50, "offset": 0}
    second = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"POST" not in head:
            writer.write(http_answer(200, msgspec.json.encode(empty), content_type="application/json"))
        elif b"hasty-1" in await reader.readuntil(b"}"):
            writer.write(http_answer(201, msgspec.json.encode(receipt), content_type="application/json"))
        else:
            second.set()
            await asyncio.Event().wait()
        await writer.drain()

    async with answering(answer) as port:
        address = f"http://127.0.0.1:{port}"
        async with on_terminal("create", "hasty", *UBUNTU, "--count", "2", "--url", address) as terminal:
            await second.wait()
            terminal.process.send_signal(signal.SIGINT)
            assert await terminal.end() == 130

    assert "hasty-2 may have been created: `corral ls --name hasty-2` shows whether it was." in terminal.text
    assert "delete with: corral rm inst_first" in terminal.text


async def test_a_list_that_is_watched_shows_what_happens(shell: Shell, corral: Running) -> None:
    """Without reading the whole list again; Ctrl-C ends it."""
    async with on_terminal("ls", "--watch", "--url", corral.address, columns=60) as terminal:
        await terminal.shows("Ctrl-C ends this.")
        await shell("create", "newcomer", *UBUNTU, "--no-wait")
        await terminal.shows("newcomer")
        terminal.process.send_signal(signal.SIGINT)
        assert await terminal.end() == 130
    piped = await shell("ls", "--watch")

    assert (piped[0], "--watch needs a terminal" in piped[2]) == (2, True)


async def test_filters_change_nothing_until_the_list_is_confirmed(shell: Shell, corral: Running) -> None:
    """With the money; without a terminal only with --yes."""
    await shell("create", "batch", *UBUNTU, "--count", "2")
    chosen = ("--name", "batch-1", "--status", "ready", "--url", corral.address)
    refused = await shell("rm", "--name", "batch-1")
    none = await shell("rm", "--name", "batch-1", "--older-than", "2d")
    async with on_terminal("rm", *chosen) as terminal:
        await terminal.shows("Delete 1 instance, together $0.18/h? [y/N]:")
        terminal.type("n\n")
        assert await terminal.end() == 1
    async with on_terminal("rm", *chosen) as terminal:
        await terminal.shows("? [y/N]:")
        terminal.process.send_signal(signal.SIGINT)
        await terminal.shows("Nothing was changed.")
        assert await terminal.end() == 130
    kept = read((await shell("ls", "--name", "batch-1", "--json"))[1])
    async with on_terminal("rm", *chosen) as terminal:
        await terminal.shows("? [y/N]:")
        terminal.type("y\n")
        assert await terminal.end() == 0
    removed = await shell("rm", "--name", "batch-2", "--yes", "--wait")
    both = await shell("rm", "batch-1", "--all")

    assert (refused[0], refused[1]) == (2, "")
    assert re.search(r"^batch-1 +ready +RTX 4090", refused[2], re.MULTILINE)
    assert "--yes confirms the above" in refused[2]
    assert (none[0], none[1]) == (0, "")
    assert kept[0]["status"] == "ready"
    assert re.fullmatch(r"batch-2 \(inst_\w+\) is gone\n", removed[1])
    assert (both[0], "not both" in both[2]) == (2, True)


async def test_each_of_several_is_reported(shell: Shell) -> None:
    """What can be done is done; the exit code is that of the first failure."""
    await shell("create", "good", *UBUNTU)
    code, output, errors = await shell("rm", "missing-1", "good", "missing-2")

    assert code == 4
    assert re.fullmatch(r"good \(inst_\w+\) is deleting\n", output)
    assert errors.splitlines() == [
        "corral: missing-1: there is no instance 'missing-1'",
        "corral: missing-2: there is no instance 'missing-2'",
        "1 of 3 done.",
    ]


async def test_times_are_those_of_the_place_with_its_zone(shell: Shell, corral: Running, tmp_path: Path) -> None:
    """JSON stays in UTC."""
    await shell("create", "clock", *UBUNTU, "--no-wait")
    made = datetime.fromisoformat(read((await shell("show", "clock", "--json"))[1])["createdAt"])
    shown = await run("show", "clock", "--url", corral.address, cwd=tmp_path, TZ="ABC-5")

    there = made.astimezone(timezone(timedelta(hours=5)))
    assert f"created   {there:%Y-%m-%d %H:%M:%S} ABC\n" in shown[1]


async def test_machines_without_a_record_and_the_logs_are_listed(shell: Shell, corral: Running) -> None:
    """Orphans, adoption, deliveries and the audit log, in words and as JSON."""
    async with answering(HttpAnswers(http_answer(500))) as port:
        await shell("create", "sender", *UBUNTU, "--webhook", f"http://127.0.0.1:{port}/hook")
        sender = read((await shell("show", "sender", "--json"))[1])

        async def was_tried() -> bool:
            return bool(read((await shell("deliveries", "--instance", "sender", "--json"))[1])[-1]["attempts"])

        await until(was_tried, what="an attempt to deliver")
        orphans, none, adopted, sent, again, wrong, audit = (
            await shell("orphans", "--json"),
            await shell("orphans"),
            await shell("adopt", sender["novitaInstanceId"]),
            await shell("deliveries", "--instance", "sender"),
            await shell("redeliver", read((await shell("deliveries", "--json"))[1])[-1]["id"]),
            await shell("deliveries", "--status", "happy"),
            await shell("audit", "--instance", "sender"),
        )

    assert read(orphans[1])["orphans"] == []
    assert "No orphans" in none[1]
    assert adopted[1] == f"sender ({sender['id']}) is ready\n"
    assert re.search(r"^dlv_\d+ +instance\.created +pending +[1-9]\d* +127\.0\.0\.1", sent[1], re.MULTILINE)
    assert re.fullmatch(r"dlv_\d+ \(instance\.created\) is sent again to 127\.0\.0\.1:?\d*\n", again[1])
    assert "must be one of pending, delivered, failed, stopped" in wrong[2]
    assert re.search(r"local +admin +POST /api/instances +201 +127\.0\.0\.1$", audit[1], re.MULTILINE)
    assert corral.process.returncode is None


async def test_exit_codes_show_a_script_what_happened(shell: Shell, corral: Running, tmp_path: Path) -> None:
    """As `corral --help` lists them."""
    twins = await asyncio.gather(*(shell("create", "twin", *UBUNTU, "--no-wait", "--another") for _ in range(2)))
    nowhere = f"http://127.0.0.1:{unused_port()}"
    missing, invalid, usage, two, unreachable, late, no_product = await asyncio.gather(
        shell("show", "missing"),
        shell("create", "bad name", *UBUNTU, "--gpus", "9"),
        shell("create", "x"),
        shell("rm", "twin"),
        run("ls", "--url", nowhere, cwd=tmp_path),
        shell("create", "never", *NEVER_HEALTHY, "--timeout", "0"),
        shell("create", "x", "--product", "Abacus", "--template", "150020"),
    )
    help_text = (await run("--help", cwd=tmp_path))[1]

    assert (missing[0], missing[2]) == (4, "corral: there is no instance 'missing'\n")
    assert invalid[0] == 2
    assert "gpuNum: must be" in invalid[2]
    assert usage[0] == 2
    assert two[0] == 1
    assert all(made[1].strip() in two[2] for made in twins)
    assert unreachable[0] == 3
    assert f"{nowhere} cannot be reached" in unreachable[2]
    assert late[0] == 1
    assert "the service continues: corral wait inst_" in late[2]
    assert no_product[0] == 4
    assert "Exit codes" in help_text
    assert corral.process.returncode is None


async def test_the_shell_completes_names(shell: Shell, corral: Running, tmp_path: Path) -> None:
    """As bash asks for it at a press of Tab: instances by name, templates by id; silence without a service."""
    await shell("create", "complete-me", *UBUNTU, "--no-wait")

    async def pressed_tab(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        return (await run(cwd=tmp_path, _CORRAL_COMPLETE="complete_bash", **words))[1].split()

    bash = await asyncio.create_subprocess_exec(
        *("bash", "-c", BASH_TAB, "bash", *re.split("(:)", corral.address)),
        cwd=tmp_path,
        env=clean_environment(CORRAL=str(CORRAL), PATH=f"{CORRAL.parent}:/usr/bin:/bin"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert (await bash.communicate())[0] == b"complete-me\n"
    at = f"--url {corral.address}"
    assert await pressed_tab(f"corral show {at} complete-") == ["complete-me"]
    assert "107672" in await pressed_tab(f"corral create x {at} --template ")
    assert set(await pressed_tab("corral re")) == {"rebuild", "redeliver", "restart", "resume"}
    assert await pressed_tab(f"corral show --url http://127.0.0.1:{unused_port()} a") == []


async def test_events_are_followed_until_interrupted(shell: Shell, corral: Running, tmp_path: Path) -> None:
    """Each on a line, at once, also into a pipe."""
    await shell("create", "followed", *UBUNTU, "--no-wait")
    following = await asyncio.create_subprocess_exec(
        *(str(CORRAL), "events", "-f", "--after", "0", "--json", "--url", corral.address),
        cwd=tmp_path,
        env=clean_environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert following.stdout is not None
    first = read((await following.stdout.readline()).decode())
    following.send_signal(signal.SIGINT)
    _, errors = await following.communicate()

    assert first["seq"] == 1
    assert following.returncode == 130
    assert b"Traceback" not in errors


async def interrupted(*arguments: str, at: str, after: str) -> tuple[int, str]:
    """Run a command on a terminal, press Ctrl-C once *at* is shown; its exit code and all that was shown."""
    async with on_terminal(*arguments) as terminal:
        await terminal.shows(at)
        terminal.process.send_signal(signal.SIGINT)
        code = await terminal.end()
    assert after in terminal.text
    return code, terminal.raw


async def test_a_start_on_a_terminal_continues_after_ctrl_c(shell: Shell, corral: Running) -> None:
    """The live line names the ports that are checked; giving up means stopping it, because it has a disk."""
    made = read((await shell("create", "napper", *NEVER_HEALTHY, "--no-wait", "--json"))[1])["instanceId"]
    await shell("wait", made, "--timeout", "0")
    await until_status(shell, made, "health_checking")
    await shell("stop", made, "--wait")
    code, text = await interrupted(
        *("start", made, "--wait", "--url", corral.address), at="unhealthy", after="corral stop inst_"
    )

    assert code == 130
    assert re.search(r"napper.*health_checking.*port \d+ unhealthy", text)
    assert f"Come back with: corral wait {made} --url" in text
    assert read((await shell("show", made, "--json"))[1])["operation"]["kind"] == "start"


async def until_status(shell: Shell, named: str, status: str) -> None:
    async def reached() -> bool:
        return bool(read((await shell("show", named, "--json"))[1])["status"] == status)

    await until(reached, what=f"{named} being {status}")


async def test_a_terminal_shows_progress_and_ctrl_c_leaves_the_work(shell: Shell, corral: Running) -> None:
    """A live line with status, time and estimate; then how to come back."""
    code, text = await interrupted(
        *("create", "patient", *UNSEEN, "--url", corral.address), at=" left", after="corral rm inst_"
    )
    instance_id = re.findall(r"corral wait (inst_\w+) --url", text)[0]

    assert code == 130
    assert "\x1b[" in text
    assert re.search(r"patient.*(creating|starting|running|health_checking).* s, about (4 min|3 min \d+ s) left", text)
    assert read((await shell("show", instance_id, "--json"))[1])["operation"]["status"] not in {"failed", "cancelled"}
