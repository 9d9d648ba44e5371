"""
Every step fails once; every job runs twice: two trials that any flow of the engine must pass.

A *flow* is a short history on an engine (create until ready, delete, …). It is played once undisturbed to learn its
steps (calls to the provider, commits to the database), then once for every step and every mishap of it. However it
went, left alone it must come to rest as the undisturbed one did, with nothing billed twice and each change reported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from corral.domain.lifecycle.phases import Phase
from support.engines.fault_engine import FaultEngine, FaultEnvironment
from support.histories.script import OF_CALLS, OF_COMMITS, Mishap

Flow = Callable[[FaultEngine], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Trial:
    """One disturbed play of a flow, and what went wrong in the end."""

    step: int
    what: str
    mishap: Mishap
    trouble: str


async def every_step_fails_once(
    environment: FaultEnvironment, flow: Flow, mishaps: tuple[Mishap, ...], **quirks: object
) -> list[Trial]:
    """Play *flow* with each of *mishaps* at each of its steps in turn; answers the plays that ended badly."""
    calm = await environment.engine(**quirks)
    await flow(calm)
    steps = list(calm.script.steps)
    await calm.settle()
    wanted = await _phases(calm)
    assert steps, "a flow without steps proves nothing"
    bad: list[Trial] = []
    for place, what in enumerate(steps):
        for mishap in mishaps:
            if mishap not in (OF_COMMITS if what == "commit" else OF_CALLS):
                continue
            engine = await environment.engine(**quirks)
            engine.script.write([*[Mishap.NONE] * place, mishap])
            await flow(engine)
            assert not engine.script.mishaps, f"step {place} was not reached again, so nothing was tried"
            trouble = await _trouble(engine, wanted)
            if trouble:
                bad.append(Trial(place, what, mishap, trouble))
    return bad


async def every_job_runs_twice(environment: FaultEnvironment, flow: Flow, **quirks: object) -> list[Trial]:
    """
    Play *flow* with every job delivered twice.

    That a job taken over does nothing twice is a trial of `every_step_fails_once`: a death right after each step.
    """
    calm = await environment.engine(**quirks)
    await flow(calm)
    await calm.settle()
    wanted = await _phases(calm)
    doubled = await environment.engine(**quirks)
    doubled.deliver_twice = True
    await flow(doubled)
    trouble = await _trouble(doubled, wanted)
    bad = [Trial(0, "all", Mishap.NONE, trouble)] if trouble else []
    if await doubled.status_changes() != await calm.status_changes():
        bad.append(
            Trial(
                0, "all", Mishap.NONE, f"reported {await doubled.status_changes()}, not {await calm.status_changes()}"
            )
        )
    return bad


async def _phases(engine: FaultEngine) -> dict[str, Phase]:
    return {instance.id: instance.phase for instance in await engine.all()}


async def _trouble(engine: FaultEngine, wanted: dict[str, Phase]) -> str:
    """What is wrong once all is at rest; empty when nothing is."""
    try:
        await engine.settle()
    except AssertionError as error:
        return str(error)
    for trouble in (engine.secret_trouble, engine.reservations.trouble):
        if trouble:
            return trouble[0]
    if engine.ledger().twice:
        return f"billed twice: {engine.ledger().twice}"
    phases = await _phases(engine)
    for instance_id, changes in (await engine.status_changes()).items():
        before = [None, *(status for _, status in changes[:-1])]
        if [previous for previous, _ in changes] != before or changes[-1][1] != phases[instance_id]:
            return f"{instance_id} is {phases[instance_id]}, but reported were {changes}"
    return "" if phases == wanted else f"ended as {phases}, not {wanted}"
