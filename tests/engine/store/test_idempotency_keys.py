"""Idempotency keys on the real database: which request holds one, for how long, and what is stored."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from support.clock.clocks import SteppedClock

from corral.api.middleware.idempotency import IdempotencyKeys
from corral.domain.idempotency import KeyRow, StoredResponse
from corral.engine.maintenance.retention import sweep_answers
from corral.jobs.registry import JobId, JobRun
from corral.store.session.database import Database
from corral.store.tables.callers import idempotency
from corral.store.tables.callers.idempotency import CLAIM_LASTS, KEPT_FOR, KeyClaim

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DONE = StoredResponse(status=200, body=b"{}")


async def claimed(database: Database, key: str = "k", now: datetime = NOW) -> KeyClaim | None:
    async with database.connection() as connection:
        return await idempotency.claim(connection, key, b"f", now)


async def settled(database: Database, claim: KeyClaim | None, answer: StoredResponse | None) -> None:
    assert claim is not None
    async with database.connection() as connection:
        await idempotency.settle(connection, claim, answer)


async def found(database: Database, now: datetime = NOW) -> KeyRow | None:
    async with database.connection() as connection:
        return (await idempotency.find(connection, ["k"], now)).get("k")


async def test_keys_asked_for_together_get_each_their_own_answer(database: Database) -> None:
    """They are read with one statement; no request may get the response of another."""
    await settled(database, await claimed(database, "a"), DONE)
    await claimed(database, "b")
    keys = IdempotencyKeys(database, SteppedClock(NOW))

    answers = await asyncio.gather(*(keys.find(key) for key in ("b", "free", "a", "b")))

    running = KeyRow(key="b", fingerprint=b"f", answer=None)
    assert answers == [running, None, KeyRow(key="a", fingerprint=b"f", answer=DONE), running]


async def test_one_of_many_gets_the_claim(database: Database) -> None:
    """The rest know that it is being executed."""
    claims = await asyncio.gather(*(claimed(database) for _ in range(20)))

    assert sum(claim is not None for claim in claims) == 1
    assert await found(database) == KeyRow(key="k", fingerprint=b"f", answer=None)


async def test_a_settled_claim_is_an_answer_for_a_day(database: Database) -> None:
    """Then the key is free."""
    await settled(database, await claimed(database), DONE)

    assert await found(database) == KeyRow(key="k", fingerprint=b"f", answer=DONE)
    assert await claimed(database, now=NOW + KEPT_FOR - timedelta(seconds=1)) is None
    assert await found(database, NOW + KEPT_FOR) is None
    assert await claimed(database, now=NOW + KEPT_FOR) is not None


async def test_a_claim_given_back_is_free_at_once(database: Database) -> None:
    """After an error of ours, the same request may be tried again."""
    await settled(database, await claimed(database), None)

    assert await found(database) is None
    assert await claimed(database) is not None


async def test_the_claim_of_a_dead_process_is_free_after_a_while(database: Database) -> None:
    """And if it was only slow, it does not overwrite what its successor holds."""
    first = await claimed(database)
    too_early = await claimed(database, now=NOW + CLAIM_LASTS - timedelta(seconds=1))
    second = await claimed(database, now=NOW + CLAIM_LASTS)
    await settled(database, first, StoredResponse(status=200, body=b"late"))
    await settled(database, first, None)
    unsettled = await found(database, NOW + CLAIM_LASTS)
    await settled(database, second, DONE)

    assert too_early is None
    assert unsettled == KeyRow(key="k", fingerprint=b"f", answer=None)
    assert await found(database, NOW + CLAIM_LASTS) == KeyRow(key="k", fingerprint=b"f", answer=DONE)


async def test_an_answer_is_not_kept_over_a_claim(database: Database) -> None:
    """The key belongs to another request, and the error says which."""
    mine = KeyRow(key="k", fingerprint=b"other", answer=DONE)
    await claimed(database)
    async with database.transaction() as connection:
        standing = await idempotency.keep(connection, [mine, mine], NOW)

    assert standing == [KeyRow(key="k", fingerprint=b"f", answer=None)] * 2


async def test_what_is_past_its_day_is_swept(database: Database) -> None:
    """The table stays small."""
    clock = SteppedClock(NOW)
    await settled(database, await claimed(database, "old"), DONE)
    await settled(database, await claimed(database, "young", NOW + timedelta(hours=1)), DONE)
    clock.advance(24 * 3600)
    job_type = sweep_answers(database, clock)
    await job_type.handler(JobRun(id=JobId(1), type=job_type.name, payload={}, attempt=1))
    async with database.connection() as connection:
        left = [row["key"] for row in await connection.fetch("SELECT key FROM corral_idempotency")]

    assert left == ["young"]
