"""
The judge of usage: what Corral says an instance cost, compared with the simulator's own bill.

The bill is computed by the simulator's code from its own timelines; the two share no code and no data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from corral.domain.costs.totals import Cost, CostGrouping, GroupBy
from corral.domain.instance import CreateRequest, InstanceId
from corral.domain.requests.labels import InstanceChange
from corral.store.tables.costs.totals import leading_groups, total_cost
from novitasim.world.billing import charges
from novitasim.world.instance import NEVER
from novitasim.world.instance import Instance as Machine
from novitasim.world.timeline import MachineShare, Status
from support.engines.audit_lines import CONTEXT
from support.engines.fault_engine import FaultEngine
from support.histories.histories import MOST_CREATES, Histories, Stage

AGES = timedelta(days=3650)
ROUNDING = Fraction(1, 100)
"""Of a micro-USD: the simulator's instants are floating-point numbers, good to a quarter of a microsecond."""
DISKS = (60, 100, 300)
MICRO_USD = 1_000_000
TICK = 1e-6


async def costs(engine: FaultEngine, group_by: GroupBy | None = None) -> dict[str | None, Cost]:
    """What Corral says everything cost so far, by groups."""
    now = engine.clock.now()
    async with engine.environment.database.connection() as connection:
        if group_by is None:
            return {None: await total_cost(connection, since=now - AGES, until=now + AGES, now=now)}
        found = await leading_groups(
            connection, since=now - AGES, until=now + AGES, now=now, group_by=group_by, limit=10_000
        )
    return {group.key: group.cost for group in found.groups}


def bills(engine: FaultEngine) -> Mapping[str, Fraction]:
    """What the simulator billed for each create request so far, in micro-USD."""
    found: defaultdict[str, Fraction] = defaultdict(Fraction)
    for bill in engine.ledger().bills:
        found[bill.request.replace("inst-", "inst_")] += charges.total(bill.charges) * MICRO_USD
    return found


async def judge_bounds(engine: FaultEngine, unknown: Container[str] = ()) -> Sequence[tuple[str, Cost, Fraction]]:
    """
    Raise AssertionError unless every bill lies within the bounds; returns what was compared.

    Those of *unknown* have no upper bound: the provider denied their machines, or others started them, and billed them.
    """
    by_instance, billed = await costs(engine, GroupBy(grouping=CostGrouping.INSTANCE)), bills(engine)
    compared = [(each, by_instance.get(each, Cost()), billed.get(each, Fraction(0))) for each in engine.requested]
    for instance_id, cost, bill in compared:
        shown = f"{instance_id}: {float(cost.low)} to {float(cost.high)}, billed {float(bill)}"
        assert cost.low <= bill + ROUNDING, f"above the bill: {shown}"
        assert bill <= cost.high + ROUNDING or instance_id in unknown, f"below the bill: {shown}"
        assert cost.low <= cost.usd <= cost.high, shown
    return compared


async def last_look(engine: FaultEngine) -> datetime:
    """When the last listing began that showed every machine as its record says."""
    async with engine.environment.database.connection() as connection:
        found: datetime = await connection.fetchval("SELECT confirmed_at FROM corral_last_look")
        return found


async def judge_sums(engine: FaultEngine) -> None:
    """Raise AssertionError unless every grouping adds up to the total, exactly."""
    whole = sum((await costs(engine)).values(), Cost())
    for grouping in CostGrouping:
        parts = sum((await costs(engine, GroupBy(grouping=grouping, label="team"))).values(), Cost())
        assert parts == whole, f"by {grouping}: {parts}, not {whole}"


async def watch_closely(engine: FaultEngine, seconds: float) -> None:
    """
    Let *seconds* pass with a listing right before and right after every instant at which anything changes.

    Right before is a microsecond, the resolution of the clock.
    """
    end = engine.simulator.now() + seconds
    while (now := engine.simulator.now()) < end:
        edges = [machine.steady_until(now) for machine in engine.simulator.world.instances.values()]
        edge = min([each for each in edges if each > now] + [end])
        if edge - now > TICK:
            engine.advance(edge - now - TICK)
            await engine.look()
        engine.advance(TICK)
        await engine.look()
        await engine.work()


class BilledHistories(Histories):
    """
    One history, judged by the simulator's bill after every rule.

    Its clock is not set: the provider bills no time that did not pass.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.created = 0
        self.unknown_ids: set[str] = set()
        self.started_by_others: dict[InstanceId, datetime] = {}
        """Stopped machines of these instances were started by others, at a time; no listing has shown it yet."""

    @rule(which=st.integers(0, MOST_CREATES - 1), team=st.sampled_from(["vision", "speech"]))
    def relabel(self, which: int, team: str) -> None:
        change = InstanceChange(labels=(("team", team),))
        self._run(self.engine.parts.relabel.replace(self._retry_after(which), change, CONTEXT))
        self.stale = True

    @rule(shown=st.sampled_from(["true", "false"]))
    def show_times(self, shown: str) -> None:
        """The provider's times of creation, start and stop are not documented: it may leave them out."""
        self.engine.simulator.change_settings({"extras_in_list": shown, "extras_in_get": shown})

    @invariant()
    def is_billed_within_bounds(self) -> None:
        if self.begun:
            self._run(self._judge_bills())

    def teardown(self) -> None:
        super().teardown()
        if self.begun:
            self._run(self._judge_bills())
            self._run(judge_sums(self.engine))

    async def _judge_bills(self) -> None:
        await self._note_unknown()
        await judge_bounds(self.engine, self.unknown_ids | self.started_by_others.keys())

    async def _note_unknown(self) -> None:
        """
        Note the bills of which Corral cannot know the upper bound.

        What others start costs nothing, as far as can be known, before a listing shows it; and if that machine is down
        again by then, no listing ever does.
        """
        machines = {each: self.engine.machines(each) for each in self.engine.requested}
        self.unknown_ids |= {
            each for each, found in machines.items() if any(machine.hidden_until != NEVER for machine in found)
        }
        if not self.started_by_others:
            return
        looked_at, now = await last_look(self.engine), self.engine.simulator.now()
        for instance_id in [each for each, at in self.started_by_others.items() if at < looked_at]:
            del self.started_by_others[instance_id]
            if not any(machine.claim(now) is MachineShare.BILLED for machine in machines[instance_id]):
                self.unknown_ids.add(instance_id)

    def _harm(self, instance_id: InstanceId, machine: Machine, harm: str) -> None:
        was_stopped = machine.status(self.engine.simulator.now()) is Status.EXITED
        super()._harm(instance_id, machine, harm)
        if harm == "is started" and was_stopped:
            self.started_by_others.setdefault(instance_id, self.engine.clock.now())

    def _order(self, request: CreateRequest) -> CreateRequest:
        self.created += 1
        return replace(request, rootfs_gb=DISKS[self.created % len(DISKS)])
