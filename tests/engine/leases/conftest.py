"""An engine whose clock shows the provider's time, so that measurements are as old as they are."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    async with stepped_engine(database, target, metrics_late_seconds=0) as engine:
        engine.clock.set_by(engine.sim.now() - engine.clock.now().timestamp())
        yield engine
