"""
Other people's machines survive everything: no name, however close to our mark, and no history has them touched.

Orphans are deleted here as eagerly as possible (CORRAL_ORPHANS=delete, hours at a time), while creates come and go and
foreign are adopted.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.engines.audit_lines import LINE
from support.engines.fault_engine import FaultEngine
from support.engines.fault_runner import fault_environment
from support.engines.runtime import settings_of

from corral.cloud.exchange import Call
from corral.cloud.novita import values, wire
from corral.domain.errors import CallerError
from corral.domain.observation.adoption import Adoption
from corral.domain.observation.provider_names import parse_provider_name
from corral.engine.build import build_engine
from corral.jobs.registry import JobId, JobRun
from corral.store.server.target import DatabaseTarget
from novitasim.testing import PLAIN

RUN = JobRun(id=JobId(1), type="sweep_orphans", payload={}, attempt=1)
DELETING = settings_of(CORRAL_ORPHANS="delete")
OURS = "{ours}"
"""Placeholder for this installation's id in a name."""
NEAR = st.sampled_from([
    "corral-{ours}-inst-", "corral-{ours}-inst--1", "corral-{ours}-inst-ABC-1", "corral-{ours}-inst-1-x",
    "corral-{ours}-inst-1-1-1", "corral-{ours}-inst-1-", "Corral-{ours}-inst-1-1", "xcorral-{ours}-inst-1-1",
    "corral-{ours}-inst-1-1x", "corral-{ours}-1-1", "corral-{ours}0-inst-1-1", "corral-ffffff-inst-1-1",
    "corral-000000-inst-2-1", "corral--inst-1-1", "worker", "inst-1",
])  # fmt: skip
NAMES = NEAR | st.text("abcdefinstcoral0123456789-", min_size=1, max_size=40)
ACTS = st.sampled_from(["create", "delete", "step", "hours", "sweep", "adopt", "forget a record"])


pytestmark = pytest.mark.usefixtures("quietly")


class History:
    """One account that we share with others."""

    def __init__(self, engine: FaultEngine) -> None:
        self.engine = engine
        engine.simulator.set_stock("4090.16c62g", "us-ca-6", 1000)

    async def foreign(self, name: str) -> str:
        body = msgspec.json.encode(PLAIN | {"name": name})
        call = Call(endpoint="create", method="POST", path="/v1/gpu/instance/create", body=body)
        return values.text((await self.engine.exchange.ask(call, wire.Created)).id)

    async def do(self, act: str, adoptable: list[str]) -> None:
        engine = self.engine
        match act:
            case "create":
                await engine.request_create()
                await engine.step()
            case "delete" if engine.requested:
                await engine.request_delete(engine.requested.pop())
            case "hours":
                await engine.step(7200.0)
            case "sweep":
                await self.sweep()
            case "adopt" if adoptable:
                with suppress(CallerError):
                    await self.adopt(adoptable.pop())
            case "forget a record" if engine.requested:
                await self.forget(engine.requested.pop())
            case _:
                await engine.step()

    async def sweep(self) -> None:
        runtime = replace(self.engine.parts.runtime, settings=DELETING)
        await build_engine(runtime).orphan_sweep.sweep(RUN)

    async def adopt(self, provider_id: str) -> None:
        known, _ = await self.engine.parts.adopt.adopt(provider_id, Adoption(), LINE)
        await self.engine.step()
        await self.engine.request_delete(known.instance.id)

    async def forget(self, instance_id: str) -> None:
        """As a backup that was made before it was wanted."""
        async with self.engine.environment.database.connection() as connection:
            await connection.execute("DELETE FROM corral_instances WHERE id = $1", instance_id)


@pytest.mark.timeout(600)
def test_other_peoples_machines_survive_everything(server: DatabaseTarget) -> None:
    """They run when we come and when we leave; what we adopted and deleted of them is gone, and our orphans too."""
    with fault_environment(server) as (environment, runner):

        async def play(names: list[str], to_adopt: int, acts: list[str]) -> None:
            history = History(await environment.engine())
            engine = history.engine
            with engine.script.silently():
                called = [name.replace(OURS, environment.installation) for name in names]
                assert not any(
                    (origin := parse_provider_name(n)) and origin.installation == environment.installation
                    for n in called
                )
                foreign = [await history.foreign(name) for name in called]
                adoptable, safe = foreign[:to_adopt], foreign[to_adopt:]
                await engine.step(10.0)
                for act in acts:
                    await history.do(act, adoptable)
                for _ in range(2):
                    await engine.step(7200.0)
                    await history.sweep()
                await engine.step()

            alive = {machine.id for machine in engine.machines()}
            assert set(safe) | set(adoptable) <= alive
            now = engine.simulator.now()
            assert {engine.simulator.world.instances[each].status(now).value for each in safe} <= {"running"}

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(NAMES, min_size=1, max_size=5), st.integers(0, 2), st.lists(ACTS, max_size=12))
        def histories(names: list[str], to_adopt: int, acts: list[str]) -> None:
            runner.run(play(names, to_adopt, acts))

        histories()
