"""A real process, paused by SIGSTOP between the commit of its intent and its create call."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
from support.clock.waiting import until
from support.engines.stepped_engine import SteppedEngine, stepped_engine
from support.processes.create_process import LONGEST_CREATE_SECONDS

from corral.domain.lifecycle.phases import Phase
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

PROCESS = Path(__file__).parents[2] / "support" / "processes" / "create_process.py"
SLOW_INTENT = """
CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NEW; END $$;
CREATE TRIGGER slow_intent BEFORE UPDATE ON corral_instances FOR EACH ROW
WHEN (NEW.create_in_doubt AND NOT OLD.create_in_doubt) EXECUTE FUNCTION wait_for_test();
"""
SESSIONS = """
SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
"""The session that waits to write its intent, and the one that holds the instance's lock meanwhile."""
WAITER = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted"
OURS = r"corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+"


@asynccontextmanager
async def intent_held_back(database: Database) -> AsyncGenerator[asyncpg.Connection]:
    """A connection that keeps the first statement that records an intent waiting until lock 42 is given back."""
    async with database.connection() as connection:
        await connection.execute(SLOW_INTENT)
        await connection.execute("SELECT pg_advisory_lock(42)")
        yield connection


async def test_a_process_paused_while_its_intent_is_committed_sends_nothing(
    database: Database, target: DatabaseTarget
) -> None:
    """Its sessions are ended, another worker gives the attempt up and makes the next: only that may be sent."""
    async with stepped_engine(database, target) as engine, intent_held_back(database) as connection:
        instance_id = await engine.request_create()
        async with engine.database.connection() as queue:
            await queue.execute("DELETE FROM corral_pgqueuer")  # the job is the process's
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(PROCESS), str(target.host), str(target.database), engine.sim.base_url, instance_id),
            env={**os.environ, "PYTHONPATH": str(PROCESS.parents[2])},  # noqa: TID251  # the interpreter's own
        )
        await until(lambda: _waiter_after_a_listing(engine, connection), what="the intent being written")
        process.send_signal(signal.SIGSTOP)
        sessions = [row["pid"] for row in await connection.fetch(SESSIONS)]
        await connection.execute("SELECT pg_advisory_unlock(42)")
        await until(lambda: _is_recorded(engine, instance_id), what="the intent committed")
        await connection.execute("SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid", sessions)
        await engine.until(instance_id, Phase.READY)
        assert (await engine.get(instance_id)).create.number == 2

        since = time.monotonic()
        await until(lambda: time.monotonic() - since > LONGEST_CREATE_SECONDS, what="the time of the create being over")
        process.send_signal(signal.SIGCONT)
        await process.wait()

        assert engine.sim.calls()["endpoints"]["create"]["total"] == 1
        assert engine.sim.ledger(OURS).most_at_once == 1


async def _waiter_after_a_listing(engine: SteppedEngine, connection: asyncpg.Connection) -> object:
    """The session that waits to write its intent; no create is tried before a listing was compared."""
    await engine.observer.list_account()
    return await connection.fetchval(WAITER)


async def _is_recorded(engine: SteppedEngine, instance_id: str) -> bool:
    async with engine.database.connection() as connection:
        found: bool = await connection.fetchval(
            "SELECT create_in_doubt FROM corral_instances WHERE id = $1", instance_id
        )
    return found
