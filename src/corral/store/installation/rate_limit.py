"""
The state of the provider's rate limit, shared by all processes.

One row, locked while a pure function computes the next state. The time is the database's, because the clocks of several
machines differ and a minute must be the same minute for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from corral.store.session.database import Database

Result = TypeVar("Result")

LOCK_SECONDS: Final = 2.0
"""The row is locked for a millisecond; if it takes longer, its holder hangs and the table counts as unreachable."""

_NOW: Final = "extract(epoch FROM clock_timestamp())::double precision AS now"
_READ_UNLOCKED: Final = f"SELECT state, {_NOW} FROM corral_provider_budget"  # noqa: S608  # constants
# The commit does not wait for the disk: a crash of PostgreSQL can only lose the calls counted in its last second.
_READ: Final = f"""
SELECT state, {_NOW}, set_config('synchronous_commit', 'off', true) FROM corral_provider_budget FOR UPDATE
"""  # noqa: S608  # constants
_WRITE: Final = "UPDATE corral_provider_budget SET state = $1"


class DatabaseRateLimitStore:
    """The rate limit store of `cloud/rate_limit/rate_limiter.py`, in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def revise(self, change: Callable[[bytes | None, float], tuple[bytes, Result]]) -> Result:
        """Replace the state by the one that *change* returns; raises StoreUnavailableError."""
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(_READ, timeout=LOCK_SECONDS)
            state: str | None = row["state"]
            # The statement's time was read before the lock was granted; the limiter never lets its time run backwards.
            revised, result = change(state.encode() if state is not None else None, float(row["now"]))
            await connection.execute(_WRITE, revised.decode(), timeout=LOCK_SECONDS)
        return result

    async def read(self) -> tuple[bytes | None, float]:
        """The state and the time, without a lock."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(_READ_UNLOCKED)
        state: str | None = row["state"]
        return None if state is None else state.encode(), float(row["now"])
