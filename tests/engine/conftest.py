"""An engine that the test steps, and an instance of it that is ready."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    async with stepped_engine(database, target) as engine:
        yield engine


@pytest.fixture
async def ready(engine: SteppedEngine) -> InstanceId:
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.READY)
    return instance_id
