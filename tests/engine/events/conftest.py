"""An event log and its sender, on a clock that the test steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.clock.clocks import SteppedClock
from support.engines.event_env import EventEnv
from support.engines.outbox import sending

from corral.base.clock import SystemClock
from corral.engine.events.webhook_sender import WebhookSender
from corral.store.session.database import Database


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock(SystemClock().now())


@pytest.fixture
def room(database: Database, clock: SteppedClock) -> EventEnv:
    return EventEnv(database, clock)


@pytest.fixture
async def deliveries(room: EventEnv) -> AsyncGenerator[WebhookSender]:
    async with sending(room) as deliveries:
        yield deliveries
