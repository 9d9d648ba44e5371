"""A `FaultEnvironment` for tests that are not coroutines, because Hypothesis calls their parts."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvloop

from corral.store.server.target import DatabaseTarget
from support.database.fresh import new_database
from support.engines.fault_engine import FaultEnvironment


@contextmanager
def fault_environment(server: DatabaseTarget, **choices: Any) -> Generator[tuple[FaultEnvironment, asyncio.Runner]]:
    """An environment made with *choices* on a database of its own, and the runner of its event loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        database = new_database(server)
        target = runner.run(database.__aenter__())
        environment = runner.run(FaultEnvironment.open(target, **choices))
        try:
            yield environment, runner
        finally:
            runner.run(environment.close())
            runner.run(database.__aexit__(None, None, None))
