"""No SQL error ends a process or one of its loops: a whole service meets each, and works again afterwards."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
from support.clock.waiting import until
from support.processes.process import Running, quicken, serving

import corral
from corral.store.server.target import DatabaseTarget

REQUEST = {"productName": "RTX 4090 24GB", "templateId": "107672"}
SOURCE = Path(corral.__file__).parent
SUPERVISED = (
    "supervise(",
    "stop.wait()",  # the signal that ends the process
    "self.server.serve()",  # its end is the end of the process, whichever way it came
)
ENDED_WITHIN_MS = 30_000
"""A session that is asked to end still answers for a while; the server waits for its end this long."""
_OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@asynccontextmanager
async def administrator(target: DatabaseTarget) -> AsyncGenerator[asyncpg.Connection]:
    connection = await asyncpg.connect(**target.arguments())
    try:
        yield connection
    finally:
        await connection.close()


async def becomes_ready(service: Running, name: str) -> bool:
    answer = await service.ask("GET", f"/api/instances?name={name}")
    return answer.status == 200 and [i["status"] for i in answer.json["instances"]] == ["ready"]


async def says_read_only(service: Running) -> bool:
    reported = (await service.ask("GET", "/health")).json
    problem = reported["dependencies"]["database"].get("problem")
    return reported["status"] == "unhealthy" and "read-only" in str(problem)


async def cancel_statements(admin: asyncpg.Connection, *, times: int) -> None:
    """Cancel whatever the service executes, so often that every loop meets it."""
    rounds = itertools.count(1)

    async def cancelled_often() -> bool:
        await admin.execute(f"SELECT pg_cancel_backend(pid) {_OTHERS}")
        return next(rounds) >= times

    await until(cancelled_often)


async def test_a_read_only_spell_and_cancelled_statements_end_no_loop(target: DatabaseTarget, short_dir: Path) -> None:
    """A failover took every worker with it, one leader after another, while creates were still answered with 201."""
    data_dir = short_dir / "read-only"
    url = f"postgresql://{target.user}@/{target.database}?host={target.host}"
    async with serving(data_dir, DATABASE_URL=url) as service, administrator(target) as admin:
        await quicken(data_dir)

        await admin.execute(f"ALTER DATABASE {target.database} SET default_transaction_read_only = on")
        await admin.execute(f"SELECT pg_terminate_backend(pid, {ENDED_WITHIN_MS}) {_OTHERS}")
        refused = await service.ask("POST", "/api/instances", json={"name": "early", **REQUEST})
        await until(lambda: any("database.lost" in line and "read-only" in line for line in service.lines))
        await until(lambda: says_read_only(service), what="the health report of the read-only database")
        await cancel_statements(admin, times=100)
        assert service.process.returncode is None, service.lines[-20:]

        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute(f"ALTER DATABASE {target.database} RESET default_transaction_read_only")
        await admin.execute(f"SELECT pg_terminate_backend(pid, {ENDED_WITHIN_MS}) {_OTHERS}")
        await until(service.is_ready, what="the service being ready again")
        created = await service.ask("POST", "/api/instances", json={"name": "late", **REQUEST})
        await until(lambda: becomes_ready(service, "late"), what="a machine after the spell")

    assert (refused.status, refused.json["error"]["code"]) == (503, "DATABASE_UNAVAILABLE")
    assert refused.headers["retry-after"] == "2"
    assert created.status == 201
    assert service.process.returncode == 0


def test_every_long_lived_task_is_supervised() -> None:
    """A task that is started bare ends with its first unexpected error, and nothing starts it again."""
    files = [*(SOURCE / "app").glob("*.py"), SOURCE / "jobs" / "worker.py"]
    started = [
        f"{file.name}: {line.strip()}"
        for file in files
        for line in file.read_text().splitlines()
        if "create_task(" in line
    ]

    assert started, "no task is started there any more: this test looks at the wrong files"
    assert [line for line in started if not any(known in line for known in SUPERVISED)] == []
