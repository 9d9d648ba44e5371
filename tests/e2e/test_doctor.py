"""`corral doctor` finds problems, names each with a next step, and changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import msgspec
import pytest
from support.http.servers import HttpAnswers, http_answer, unused_port
from support.http.servers import serving as answering
from support.processes.process import run, serving

from corral.app import doctor
from corral.base.clock import SystemClock
from corral.base.settings.configuration import load
from corral.store.secrets.key_file import SecretKeyFile
from corral.store.server.target import DatabaseTarget
from novitasim.testing import start_simulator


async def examined(cwd: Path, *arguments: str, **settings: str) -> tuple[int, dict[str, Any]]:
    code, output, errors = await run("doctor", "--json", *arguments, cwd=cwd, **settings)
    reported = msgspec.json.decode(output)
    assert errors == ""
    assert reported["healthy"] == (code == 0)
    lines = {line["check"]: line for line in reported["findings"]}
    assert all(line["nextStep"] for line in lines.values() if line["verdict"] == "failed")
    return code, lines


async def test_a_service_at_work_is_found_well(short_dir: Path) -> None:
    """All that was looked at is named, and that the provider is not the real one."""
    data_dir = short_dir / "well" / ".corral"
    async with serving(data_dir) as corral:
        code, lines = await examined(data_dir.parent, "--url", corral.address)
        table = await run("doctor", "--url", corral.address, cwd=data_dir.parent)

    assert code == 0
    assert {name: line["verdict"] for name, line in lines.items()} == dict.fromkeys(
        ["settings", "data directory", "database", "secret key", "provider", "clock", "service"], "ok"
    )
    assert "nothing is billed" in lines["provider"]["found"]
    assert lines["clock"]["found"].endswith(" s of the provider's")
    assert "schema up to date" in lines["database"]["found"]
    assert "on the simulator" in lines["service"]["found"]
    assert table[1].splitlines()[0].split() == ["CHECK", "VERDICT", "FOUND", "WHAT", "TO", "DO"]


async def test_a_missing_key_of_secrets_is_named(target: DatabaseTarget, tmp_path: Path) -> None:
    """With how many creates wait for it; a file that others can read is refused, whatever waits."""
    own = SecretKeyFile(tmp_path / "secret.key").load_or_create()
    connection = await asyncpg.connect(**target.arguments())
    await connection.execute("INSERT INTO corral_secrets VALUES ('inst_1', $1, ''), ('inst_2', 'f00d', '')", own.id)
    await connection.close()
    url = f"postgresql://{target.user}@/{target.database}?host={target.host}"
    settings = load({"CORRAL_DATA_DIR": str(tmp_path), "DATABASE_URL": url})

    async def secret_key() -> doctor.CheckResult:
        findings = await doctor.examine(lambda: settings, SystemClock(), url=f"http://127.0.0.1:{unused_port()}")
        return next(each for each in findings if each.check == "secret key")

    missing = await secret_key()
    (tmp_path / "secret.key").chmod(0o640)
    readable = await secret_key()

    assert missing.status is readable.status is doctor.CheckStatus.FAILED
    assert missing.found.startswith("1 creates wait with secrets of key f00d")
    assert own.id in missing.found
    assert "mode 640" in readable.found


async def test_doctor_changes_nothing_on_a_fresh_machine(tmp_path: Path) -> None:
    """A fresh machine: only the service is missing, and the place where data will be is not made by looking."""
    code, lines = await examined(tmp_path, PORT=str(unused_port()))

    assert code == 1
    assert [name for name, line in lines.items() if line["verdict"] == "failed"] == ["service"]
    assert "corral serve" in lines["service"]["nextStep"]
    assert lines["clock"]["verdict"] == "skipped"
    assert list(tmp_path.iterdir()) == []


async def test_bad_settings_are_all_named(tmp_path: Path) -> None:
    """Nothing else can be looked at without them."""
    code, lines = await examined(tmp_path, PORT="x", MAX_CONCURRENT_JOBS="0")

    assert code == 1
    assert list(lines) == ["settings"]
    assert "PORT='x'" in lines["settings"]["found"]
    assert "MAX_CONCURRENT_JOBS='0'" in lines["settings"]["found"]


async def test_a_refused_key_is_distinguished_from_an_unreachable_provider(tmp_path: Path) -> None:
    """The two have different remedies; the key itself is never printed."""
    async with start_simulator(keys=frozenset({"right"})) as sim:
        _, refused = await examined(tmp_path, NOVITA_API_KEY="sk-wrong", NOVITA_API_BASE_URL=sim.base_url)
        _, taken = await examined(tmp_path, NOVITA_API_KEY="right", NOVITA_API_BASE_URL=sim.base_url)
    nowhere = f"http://127.0.0.1:{unused_port()}"
    _, away = await examined(tmp_path, NOVITA_API_KEY="right", NOVITA_API_BASE_URL=nowhere)

    assert "refused the key" in refused["provider"]["found"]
    assert refused["provider"]["nextStep"] == "set a valid NOVITA_API_KEY"
    assert "sk-wrong" not in str(refused)
    assert taken["provider"]["verdict"] == "ok"
    assert away["provider"]["verdict"] == "failed"
    assert nowhere in away["provider"]["nextStep"]


@pytest.mark.parametrize(
    ("date", "verdict", "words"),
    [
        ("Tue, 01 Jan 2030 00:00:20 GMT", "ok", "within 20 s"),
        ("Tue, 01 Jan 2030 00:10:00 GMT", "failed", "600 s behind the provider's"),
        ("Mon, 31 Dec 2029 23:50:00 GMT", "failed", "600 s ahead of the provider's"),
        ("soon", "skipped", "no answer of the provider included its time"),
    ],
)
async def test_a_wrong_clock_is_reported(tmp_path: Path, date: str, verdict: str, words: str) -> None:
    """By the provider's own Date header, also on a refusal; signatures depend on it."""

    class Fixed(SystemClock):
        def now(self) -> datetime:
            return datetime(2030, 1, 1, tzinfo=UTC)

    answers = HttpAnswers(http_answer(401, b"{}", content_type="application/json", Date=date))
    async with answering(answers) as port:
        settings = {
            "NOVITA_API_KEY": "any",
            "NOVITA_API_BASE_URL": f"http://127.0.0.1:{port}",
            "CORRAL_DATA_DIR": str(tmp_path),
        }
        away = f"http://127.0.0.1:{unused_port()}"
        findings = await doctor.examine(lambda: load(settings), Fixed(), url=away)

    (found,) = [finding for finding in findings if finding.check == "clock"]
    assert (found.status, found.found) == (verdict, words if verdict == "skipped" else found.found)
    assert words in found.found


async def test_a_database_server_that_lacks_migrations_or_is_away(tmp_path: Path, server: DatabaseTarget) -> None:
    """`corral migrate` is the remedy for one, the address for the other."""
    assert server.host is not None
    empty = f"postgresql://{server.user}@/postgres?host={quote(server.host, safe='')}"
    _, lacking = await examined(tmp_path, DATABASE_URL=empty)
    _, away = await examined(tmp_path, DATABASE_URL=f"postgresql://u:hunter2@127.0.0.1:{unused_port()}/x")

    assert lacking["database"]["nextStep"] == "run `corral migrate`"
    assert "DATABASE_URL" in away["database"]["nextStep"]
    assert "hunter2" not in str(away)
