"""An SQL error that passes by itself is a retryable error of the store, never an unknown one."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from corral.domain.errors import StoreUnavailableError
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

PASSING = {
    "53100": "disk full",
    "53200": "out of memory",
    "53300": "too many connections",
    "57014": "cancelled by pg_cancel_backend or a statement time-out",
    "57P01": "ended by an administrator",
    "55P03": "lock time-out",
    "40P01": "deadlock",
    "40001": "serialization failure",
    "25006": "read-only, as during a failover",
    "25P03": "idle in a transaction for too long",
    "58030": "I/O error of the server",
}


@pytest.mark.parametrize("sqlstate", PASSING, ids=PASSING.values())
async def test_an_error_that_passes_may_be_retried(database: Database, sqlstate: str) -> None:
    """Every loop and route knows StoreUnavailableError: it waits, or answers 503 with Retry-After."""
    with pytest.raises(StoreUnavailableError) as raised:
        async with database.transaction() as connection:
            await connection.execute(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}'; END $$")

    assert raised.value.retryable
    assert raised.value.retry_after_seconds == 2
    assert (await database.probe()).at is not None


async def test_a_read_only_session_is_replaced(database: Database) -> None:
    """After a failover the old primary stays read-only; the pool must connect again to find the new one."""
    async with database.connection() as connection:
        await connection.execute("SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailableError, match="read-only"):
        async with database.connection() as connection:
            await connection.execute("CREATE TABLE refused (n int)")

    async with database.connection() as connection:
        await connection.execute("CREATE TABLE accepted (n int)")


async def test_a_full_disk_is_reported_for_a_while(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads and small writes still succeed on a full disk, so the probe alone said that all is well."""
    before = (await database.probe()).problem
    with pytest.raises(StoreUnavailableError):
        async with database.connection() as connection:
            await connection.execute("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '53100'; END $$")
    meanwhile = (await database.probe()).problem
    monkeypatch.setattr("corral.store.session.database.FULL_SECONDS", 0.0)
    after = (await database.probe()).problem

    assert (before, meanwhile, after) == (None, "the database's disk is full", None)


@pytest.mark.parametrize("within", ["a statement", "a transaction"])
async def test_a_task_that_is_cancelled_while_the_database_is_silent_ends(
    target: DatabaseTarget, monkeypatch: pytest.MonkeyPatch, within: str
) -> None:
    """The leader waits for its tasks to end before it tries to lead again: one of them went on, and it never did."""
    monkeypatch.setattr("corral.store.session.database.CONNECT_TIMEOUT_SECONDS", 1.0)
    database = await Database.connect(target, most_connections=1, statement_seconds=1.0)
    borrow = database.transaction if within == "a transaction" else database.connection
    session, is_silent = 0, asyncio.Event()

    async def wait_for_an_answer() -> None:
        nonlocal session
        async with borrow() as connection:
            session = await connection.fetchval("SELECT pg_backend_pid()")
            os.kill(session, signal.SIGSTOP)
            is_silent.set()
            await connection.fetchval("SELECT 1", timeout=60)

    try:
        asking = asyncio.create_task(wait_for_an_answer())
        await is_silent.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    finally:
        os.kill(session, signal.SIGCONT)
        database.pool.terminate()
