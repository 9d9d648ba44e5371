"""The numbers of a fleet, over a test's database."""

from __future__ import annotations

from corral.base.clock import Clock
from corral.cloud.breaker import BreakerState
from corral.cloud.guarded import Reachability
from corral.engine.queries.fleet import Fleet
from corral.jobs.queue import JobQueue
from corral.store.session.database import Database


def a_fleet(database: Database, queue: JobQueue, clock: Clock) -> Fleet:
    """With a provider that was never asked."""
    seen = Reachability(
        breaker=BreakerState.CLOSED,
        calls_per_minute=300,
        last_answer_at=None,
        last_failure_at=None,
        last_failure=None,
    )
    return Fleet(database, queue, calls_a_minute=None, reachability=lambda: seen, clock=clock)
