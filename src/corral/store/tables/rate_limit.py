"""
The provider's budget, where every process sees it.

One row, locked for as long as a pure function takes. The time is the database's, because the clocks of several machines
differ and a minute must be the same minute for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from corral.store.session.database import Database

Result = TypeVar("Result")

LOCK_SECONDS: Final = 2.0
"""The row is held for a millisecond; where it takes longer, its holder hangs, and the budget is as good as away."""

_NOW: Final = "extract(epoch FROM clock_timestamp())::double precision AS now"
_LOOK: Final = f"SELECT state, {_NOW} FROM corral_provider_budget"  # noqa: S608  # constants
# Nobody waits for the disk: all that a crash of PostgreSQL can forget is that calls of its last second were counted.
_READ: Final = f"""
SELECT state, {_NOW}, set_config('synchronous_commit', 'off', true) FROM corral_provider_budget FOR UPDATE
"""  # noqa: S608  # constants
_WRITE: Final = "UPDATE corral_provider_budget SET state = $1"


class DatabaseRateLimitStore:
    """A BudgetLedger (see `cloud/rate_limiter.py`) in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def revise(self, change: Callable[[bytes | None, float], tuple[bytes, Result]]) -> Result:
        """Replace the state by what *change* makes of it; raises StoreUnavailableError when it cannot be reached."""
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(_READ, timeout=LOCK_SECONDS)
            state: str | None = row["state"]
            # The statement's time was read before the lock was granted; the budget never lets its time run backwards.
            revised, result = change(state.encode() if state is not None else None, float(row["now"]))
            await connection.execute(_WRITE, revised.decode(), timeout=LOCK_SECONDS)
        return result

    async def read(self) -> tuple[bytes | None, float]:
        """The state as it is, and the time; nobody waits for it."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(_LOOK)
        state: str | None = row["state"]
        return None if state is None else state.encode(), float(row["now"])
