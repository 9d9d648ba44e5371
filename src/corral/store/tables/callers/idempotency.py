"""
The response to each idempotency key, for a day.

`keep` stores responses in the transaction of their change: both are committed or neither, so it needs no claim and
leaves nothing behind when the process dies. `claim` and `settle` are for everything else: the key is claimed before,
the response stored after, and the claim of a process that died expires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from corral.domain.idempotency import KeyRow, StoredResponse
from corral.store.session.database import SWEEP_SECONDS, Connection

KEPT_FOR: Final = timedelta(hours=24)
CLAIM_LASTS: Final = timedelta(seconds=60)
"""How long a request may take. Shorter, and a slow one is executed twice; longer, and a crash blocks its key longer."""

_FREE = """
(corral_idempotency.kept_at <= $6 OR (corral_idempotency.status IS NULL AND corral_idempotency.claimed_until <= $5))
"""
_OPEN = "WHERE key = $1 AND claimed_until = $2 AND status IS NULL"
_KEEP = f"""
INSERT INTO corral_idempotency (key, fingerprint, status, body, kept_at)
SELECT key, fingerprint, status, body, $5::timestamptz
FROM unnest($1::text[], $2::bytea[], $3::int[], $4::bytea[]) AS n (key, fingerprint, status, body)
ORDER BY key -- every process takes locks in one order, so that there is no deadlock
ON CONFLICT (key) DO UPDATE SET
    fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body, claimed_until = NULL,
    kept_at = excluded.kept_at
WHERE {_FREE}
RETURNING key
"""  # noqa: S608  # constants
_CLAIM = f"""
INSERT INTO corral_idempotency (key, fingerprint, claimed_until, kept_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (key) DO UPDATE SET
    fingerprint = excluded.fingerprint, status = NULL, body = NULL, claimed_until = excluded.claimed_until,
    kept_at = excluded.kept_at
WHERE {_FREE.replace("$5", "$4").replace("$6", "$5")}
RETURNING key
"""  # noqa: S608  # constants


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyClaim:
    """The right to execute the request of one key."""

    key: str
    until: datetime


async def find(connection: Connection, keys: Sequence[str], now: datetime) -> dict[str, KeyRow]:
    """The rows of those of *keys* that are not free."""
    rows = await connection.fetch(
        "SELECT key, fingerprint, status, body FROM corral_idempotency"
        " WHERE key = ANY($1) AND kept_at > $3 AND (status IS NOT NULL OR claimed_until > $2)",
        keys,
        now,
        now - KEPT_FOR,
    )
    return {row["key"]: _read(row) for row in rows}


async def keep(connection: Connection, wanted: Sequence[KeyRow], now: datetime) -> list[KeyRow]:
    """
    Store each response with a free key, within the caller's transaction.

    Returns, for each, the row that counts: the same object if it was stored, else the row of another request.
    Waits for transactions that are storing the same keys until they end.
    """
    firsts = {row.key: row for row in reversed(wanted)}
    answers = [row.answer for row in firsts.values() if row.answer is not None]
    taken = await connection.fetch(
        _KEEP,
        list(firsts),
        [row.fingerprint for row in firsts.values()],
        [answer.status for answer in answers],
        [answer.body for answer in answers],
        now,
        now - KEPT_FOR,
    )
    kept = {row["key"] for row in taken}
    # A claim may be given back between the two statements; the next request with this key then finds it free.
    standing = {key: row if key in kept else replace(row, answer=None) for key, row in firsts.items()}
    others = [key for key in firsts if key not in kept]
    if others:
        rows = await connection.fetch(
            "SELECT key, fingerprint, status, body FROM corral_idempotency WHERE key = ANY($1)", others
        )
        standing |= {row["key"]: _read(row) for row in rows}
    return [standing[row.key] for row in wanted]


async def give_back(connection: Connection, kept: Sequence[KeyRow]) -> None:
    """Free the keys of responses that the caller's transaction stored, and that are not sent after all."""
    await connection.execute("DELETE FROM corral_idempotency WHERE key = ANY($1)", [row.key for row in kept])


async def claim(connection: Connection, key: str, fingerprint: bytes, now: datetime) -> KeyClaim | None:
    """Take *key* for a request about to be executed; None when it is not free."""
    until = now + CLAIM_LASTS
    taken = await connection.fetchval(_CLAIM, key, fingerprint, until, now, now - KEPT_FOR)
    return None if taken is None else KeyClaim(key=key, until=until)


async def settle(connection: Connection, claim: KeyClaim, answer: StoredResponse | None) -> None:
    """Store the response, or, without one, give the key back; does nothing if the claim expired and was taken over."""
    if answer is None:
        await connection.execute(f"DELETE FROM corral_idempotency {_OPEN}", claim.key, claim.until)  # noqa: S608
    else:
        kept = f"UPDATE corral_idempotency SET status = $3, body = $4 {_OPEN}"  # noqa: S608  # constants
        await connection.execute(kept, claim.key, claim.until, answer.status, answer.body)


async def sweep(connection: Connection, now: datetime) -> int:
    """Delete what is older than a day; returns how many rows."""
    removed: int = await connection.fetchval(
        "WITH gone AS (DELETE FROM corral_idempotency WHERE kept_at <= $1 RETURNING key) SELECT count(*) FROM gone",
        now - KEPT_FOR,
        timeout=SWEEP_SECONDS,
    )
    return removed


def _read(row: Any) -> KeyRow:
    answer = None if row["status"] is None else StoredResponse(status=row["status"], body=row["body"])
    return KeyRow(key=row["key"], fingerprint=row["fingerprint"], answer=answer)
