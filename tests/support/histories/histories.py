"""
Random histories of the engine: creates, faults, kills and foreign changes in any order.

`Histories` is the state machine that Hypothesis drives; `run` drives it over one ground. The judges are the simulator's
ledger and the events: after every rule no create is billed twice, gone means gone and no change is out of order;
and at the end, left alone, everything comes to rest where it is wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

from hypothesis import HealthCheck, seed, settings
from hypothesis import Phase as Phases
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from corral.domain.instance import CreateRequest, Instance, InstanceId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.operation import OperationKind
from novitasim.api.refusal import RefusalError
from novitasim.server.simulator import Simulator
from novitasim.world import commands, spot
from novitasim.world.instance import Instance as Machine
from novitasim.world.timeline import MachineShare, Status
from support.engines.engine_steps import REQUEST, WITH_SECRETS
from support.engines.fault_engine import FaultEnvironment
from support.histories.script import OF_CALLS, OF_COMMITS, Either, Mishap

T = TypeVar("T")

LONGEST_LAG_SECONDS = 40
RULE_SECONDS = 60
"""A rule that takes longer waits for itself: it takes milliseconds, and a second on a busy machine."""
MOST_CREATES = 3
COMMANDS = (OperationKind.STOP, OperationKind.START, OperationKind.RESTART)

ENDING = frozenset({Status.TO_STOP, Status.STOPPING, Status.TO_REMOVE, Status.REMOVING})


def _fail(simulator: Simulator, machine: Machine, now: float) -> None:
    """It gets a statusError; one that is stopping or removed would then be so for ever, and rightly reported."""
    if machine.status(now) not in ENDING:
        simulator.world.put(spot.fail(machine, now, "the host broke"), now)


Harm = Callable[[Simulator, Machine, float], object]
HARMS: dict[str, Harm] = {
    "vanishes": lambda sim, machine, now: sim.world.put(spot.vanish(machine, now, seconds=0), now),
    "is denied": lambda sim, machine, now: sim.world.put(spot.vanish(machine, now, seconds=20), now),
    "is long denied": lambda sim, machine, now: sim.world.put(spot.vanish(machine, now, seconds=120), now),
    "fails": _fail,
    "is removed": lambda sim, machine, now: commands.delete(sim.world, machine, now),
    "is stopped": lambda sim, machine, now: commands.stop(sim.world, machine, now),
    "is started": lambda sim, machine, now: commands.start(sim.world, machine, now),
}
MOST_STEPS_HURT = 12
"""How far into a rule's steps a mishap may lie; a whole birth takes ten."""
USUAL_STEPS = 3
"""How many steps most rules have."""


class Plan(NamedTuple):
    """What goes wrong during one rule."""

    mishaps: list[Mishap | Either]
    at_change: Mishap


def _placed(mishaps: dict[int, Either]) -> list[Mishap | Either]:
    return [mishaps.get(place, Mishap.NONE) for place in range(max(mishaps, default=-1) + 1)]


mishaps = st.builds(Either, st.sampled_from(OF_CALLS), st.sampled_from(OF_COMMITS))
places = st.one_of(st.integers(0, USUAL_STEPS), st.integers(0, MOST_STEPS_HURT))
scripts = st.builds(
    Plan,
    st.one_of(st.just({}), st.dictionaries(places, mishaps, min_size=1, max_size=3)).map(_placed),
    st.one_of(st.just(Mishap.NONE), st.sampled_from(OF_CALLS)),
)
"""Half of the rules have no mishap at any place, and half of them none at a change."""


@dataclass
class Stage:
    """Where histories play, and how many there were."""

    environment: FaultEnvironment
    runner: asyncio.Runner
    played: int = 0
    begun: int = 0
    converged: int = 0
    """How many were left alone at their end and judged; fewer than begun means that a judge was not called."""
    met: set[tuple[str, Mishap]] = field(default_factory=set[tuple[str, Mishap]])
    """The mishaps that happened, each with its step."""
    lifecycles: int = 0
    """How many instances were judged at the end of their history."""
    phases: set[Phase] = field(default_factory=set[Phase])
    """The phases in which an instance was seen after a rule, and those of the events."""

    def run(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            try:
                async with asyncio.timeout(RULE_SECONDS):
                    return await work
            finally:
                # What a killed pass left running would otherwise take part in the next rule, sooner or later.
                left = asyncio.all_tasks() - {asyncio.current_task()}
                if left:
                    _, pending = await asyncio.wait(left, timeout=RULE_SECONDS)
                    assert not pending, pending

        # Not `runner.run`, which sets up signal handlers each time.
        return self.runner.get_loop().run_until_complete(awaited())


class UniformProvider(HypothesisProvider):
    """
    A backend of Hypothesis that chooses among all values of a range with the same probability.

    Hypothesis's own prefers numbers near zero, and so the first rules and mishaps of their lists; and it repeats parts
    of earlier histories. A failing history is shrunk as ever.
    """

    def draw_integer(self, min_value: int | None = None, max_value: int | None = None, **options: Any) -> int:
        if min_value is None or max_value is None or options.get("weights"):
            return super().draw_integer(min_value, max_value, **options)
        assert self._random is not None
        return self._random.randint(min_value, max_value)


AVAILABLE_PROVIDERS["uniform"] = UniformProvider


class Histories(RuleBasedStateMachine):
    """One history."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        stage.played += 1
        self.begun = False
        self.unlucky: set[InstanceId] = set()
        """Creates with something that may rightly fail them."""
        self.long_denied = False
        """Whether it did so for longer than the settle time."""
        self.denied = False
        """Whether the provider ever denied an instance that it kept: then "gone" could be taken back."""
        self.bad_times = False
        """Whether something happened that may fail any create, also later ones."""
        self.known: list[Instance] = []
        self.stale = True
        """Whether something may have been written since `known` was read."""

    @initialize(lag=st.sampled_from([0, 5, LONGEST_LAG_SECONDS]), blind=st.booleans(), oldest_first=st.booleans())
    def begin(self, lag: int, *, blind: bool, oldest_first: bool) -> None:
        order = "oldest" if oldest_first else "newest"
        quirks = {"list_lag_seconds": lag, "get_lag_seconds": lag if blind else 0, "list_order": order}
        self.engine = self.stage.run(self.stage.environment.engine(**quirks))
        self._run(self.engine.request_create(self._order(WITH_SECRETS)))
        self.begun = True
        self.stage.begun += 1

    # Users.

    @precondition(lambda self: len(self.engine.requested) < MOST_CREATES)
    @rule(minutes=st.sampled_from([2, 600]))
    def request_create(self, minutes: int) -> None:
        found = self._run(self.engine.request_create(self._order(REQUEST), minutes=minutes))
        self.stale = True
        if minutes < 600:  # too short for every delay to come
            self.unlucky.add(found)

    @rule(which=st.integers(0, MOST_CREATES - 1))
    def request_delete(self, which: int) -> None:
        self._run(self.engine.request_delete(self._retry_after(which)))
        self.stale = True

    @rule(which=st.integers(0, MOST_CREATES - 1), kind=st.sampled_from(COMMANDS))
    def ask(self, which: int, kind: OperationKind) -> None:
        self._run(self.engine.ask(kind, self._retry_after(which)))
        self.stale = True

    # The service.

    @rule(script=scripts)
    def work(self, script: Plan) -> None:
        self._scripted(script, self.engine.work)

    @rule(script=scripts)
    def look(self, script: Plan) -> None:
        self._scripted(script, self.engine.look)

    @rule(seconds=st.sampled_from([1, 3, 15, 61]), is_long=st.booleans(), script=scripts)
    def step(self, seconds: int, script: Plan, *, is_long: bool) -> None:
        self._scripted(script, lambda: self.engine.step(seconds, is_long=is_long))

    @rule(which=st.integers(0, MOST_CREATES - 1), script=scripts)
    def run_a_job_twice(self, which: int, script: Plan) -> None:
        self._scripted(script, lambda: self.engine.double(self._retry_after(which)))

    @rule(seconds=st.one_of(st.integers(1, 90), st.sampled_from([300, 900])))
    def wait(self, seconds: int) -> None:
        self.engine.advance(seconds)

    # The provider, and others at it.

    @rule(which=st.integers(0, MOST_CREATES - 1), harm=st.sampled_from(sorted(HARMS)))
    def harm(self, which: int, harm: str) -> None:
        instance_id = self._retry_after(which)
        self.unlucky.add(instance_id)
        now = self.engine.simulator.now()
        for machine in self.engine.machines(instance_id):
            if not machine.hidden(now):
                self._harm(instance_id, machine, harm)

    @rule(gpus=st.sampled_from([0, 1, None]), healthy=st.booleans())
    def change_times(self, gpus: int | None, *, healthy: bool) -> None:
        """Bad times, or good ones again: stock and health of everything."""
        self.bad_times = True
        self.engine.prober.healthy = healthy
        self._set_stock(gpus)

    def _set_stock(self, gpus: int | None) -> None:
        for product in self.engine.simulator.world.catalog.products.values():
            if product.name == REQUEST.product_name:
                for cluster in product.clusters:
                    self.engine.simulator.set_stock(product.id, cluster, gpus)

    # The judges.

    @invariant()
    def holds(self) -> None:
        """Billed at most once; gone means gone; each change is published once, in order."""
        self._check_bills()
        if self.stale:  # nothing was written since, else
            self.known = self._run(self.engine.all())
            self._run(self._check_events())
            self.stale = False
        for instance in self.known:
            self._check_gone(instance)

    def teardown(self) -> None:
        if self.begun:
            self._run(self._left_alone_it_converges())
            self.stage.converged += 1
            self.stage.lifecycles += len(self.engine.requested)
            self.stage.met |= self.engine.script.met

    def _check_bills(self) -> None:
        if self.long_denied:
            return  # hidden for longer than the settle time, a machine cannot be distinguished from a deleted one
        for trouble in (self.engine.secret_trouble, self.engine.reservations.trouble):
            assert not trouble, trouble[0]
        twice = self.engine.ledger().twice
        assert not twice, f"billed twice: {twice}"
        for instance_id in self.engine.requested:
            there = [machine.order.name for machine in self.engine.machines(instance_id)]
            assert len(there) <= 1, f"exist at once: {there}"

    async def _check_events(self) -> None:
        reported = await self.engine.status_changes()
        for instance in self.known:
            changes = reported[instance.id]
            self._check_changes(instance, changes)
            self.stage.phases |= {instance.phase, *(Phase(status) for _, status in changes)}

    def _check_gone(self, instance: Instance) -> None:
        if instance.phase is not Phase.TERMINATED:
            return
        now = self.engine.simulator.now()
        there = [m.order.name for m in self.engine.machines(instance.id) if not m.hidden(now)]
        if self.denied:
            # The provider said itself that it was gone. Once it takes that back, the next look deletes it, and the end
            # of the history checks that it did.
            return
        assert not there, f"called terminated, but exists: {there}"
        instance_id = f"{instance.id.replace('_', '-')}-"
        assert not [c.about for _, c in self.engine.exchange.late if instance_id in c.about], "may still turn up"

    def _check_changes(self, instance: Instance, changes: list[tuple[str | None, str]]) -> None:
        before = [None, *(status for _, status in changes[:-1])]
        assert [previous for previous, _ in changes] == before, f"a broken chain: {changes}"
        assert all(previous != status for previous, status in changes), f"a change that is none: {changes}"
        assert changes[-1][1] == instance.phase, f"{instance.phase} was not reported: {changes}"
        gone = [status for _, status in changes].count(Phase.TERMINATED)
        assert gone <= 1 or self.denied, f"gone, and gone again: {changes}"

    async def _left_alone_it_converges(self) -> None:
        engine = self.engine
        engine.prober.healthy = True
        self._set_stock(None)  # what waits for capacity gets it, instead of taking hours to its deadline
        await engine.settle()
        for _ in range(4):  # whatever is late, or denied for long, has its chance
            await engine.step(LONGEST_LAG_SECONDS)
        await engine.settle()
        self.known = await engine.all()
        for instance in self.known:
            self._judge(instance)
        await self._check_events()
        self._check_bills()
        before = await engine.status_changes()
        for instance_id in engine.requested:
            await engine.double(instance_id)
        assert await engine.status_changes() == before, "a doubled job made news"

    def _judge(self, instance: Instance) -> None:
        there = [machine.id for machine in self.engine.machines(instance.id)]
        if instance.goal is Goal.GONE:
            assert instance.phase is Phase.TERMINATED, instance
            assert not there, f"deleted, but exists: {there}"
            return
        assert set(there) <= {instance.provider_id}, f"{there} exist, of which only {instance.provider_id} is known"
        if instance.goal is Goal.STOPPED and there:
            assert instance.phase in {Phase.EXITED, Phase.FAILED}, instance
            now = self.engine.simulator.now()
            running = [m.id for m in self.engine.machines(instance.id) if m.claim(now) is MachineShare.BILLED]
            assert not running or instance.observation.failure, f"stopped, but billed: {instance}"
            return
        if instance.phase is Phase.READY:
            assert there == [instance.provider_id], f"ready, but gone: {instance}"
            return
        if instance.phase is Phase.EXITED:  # another user stopped it
            assert there == [instance.provider_id], f"stopped, but gone: {instance}"
            assert self.bad_times or instance.id in self.unlucky, f"stopped without need: {instance}"
            return
        assert instance.failure is not None, f"failed without a reason: {instance}"
        assert self.bad_times or instance.id in self.unlucky, f"failed without need: {instance}"

    # Inside.

    def _run(self, work: Awaitable[T]) -> T:
        return self.stage.run(work)

    def _scripted(self, script: Plan, act: Callable[[], Awaitable[None]]) -> None:
        self.engine.script.write(script.mishaps, at_change=script.at_change)
        self._run(act())
        self.stale = True
        self.engine.script.write([])

    def _harm(self, _instance_id: InstanceId, machine: Machine, harm: str) -> None:
        simulator = self.engine.simulator
        with suppress(RefusalError):
            HARMS[harm](simulator, machine, simulator.now())
        self.denied |= "denied" in harm
        self.long_denied |= "long denied" in harm

    def _order(self, request: CreateRequest) -> CreateRequest:
        """The request of the next create."""
        return request

    def _retry_after(self, which: int) -> InstanceId:
        return self.engine.requested[which % len(self.engine.requested)]


class ClockHistories(Histories):
    """One history in which the clock may be set, too."""

    @rule(seconds=st.sampled_from([61, 3600]))
    def set_the_clock(self, seconds: int) -> None:
        """The machine's clock is set ahead: deadlines end early, but nothing may be made twice by it."""
        self.bad_times = self.denied = True
        self.engine.clock.set_by(seconds)


def play(
    stage: Stage,
    *,
    histories: int,
    steps: int = 20,
    shrinking: bool = True,
    beginning: int | None = None,
    kind: type[Histories] = ClockHistories,
) -> None:
    """
    Play so many random histories; raises what the first bad one raised, made short if *shrinking*.

    Which ones is decided by *beginning*, the seed of the random choices, if it is given.
    """

    def machine() -> Histories:
        return kind(stage)

    phases = (Phases.explicit, Phases.reuse, Phases.generate, *((Phases.shrink,) if shrinking else ()))
    run_state_machine_as_test(
        cast("Any", machine if beginning is None else seed(beginning)(machine)),
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps,
            deadline=None,
            phases=phases,
            report_multiple_bugs=False,
            backend="uniform",
            suppress_health_check=list(HealthCheck),
        ),
    )
