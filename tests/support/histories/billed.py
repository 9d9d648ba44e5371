"""
The judge of usage: what Corral says an instance cost, compared with the simulator's own bill.

The bill is computed by the simulator's code from its own timelines; the two share no code and no data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from corral.domain.costs.totals import Cost, CostGrouping, GroupBy
from corral.domain.instance import CreateRequest
from corral.domain.requests.labels import InstanceChange
from corral.store.tables.costs.totals import totals
from novitasim.world.billing import charges
from novitasim.world.instance import NEVER
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
        found = await totals(connection, since=now - AGES, until=now + AGES, now=now, group_by=group_by)
    return {group.key: group.cost for group in found}


def bills(engine: FaultEngine) -> Mapping[str, Fraction]:
    """What the simulator billed for each create request so far, in micro-USD."""
    found: defaultdict[str, Fraction] = defaultdict(Fraction)
    for bill in engine.ledger().bills:
        found[bill.request.replace("inst-", "inst_")] += charges.total(bill.charges) * MICRO_USD
    return found


async def judge_bounds(engine: FaultEngine, denied: Container[str] = ()) -> Sequence[tuple[str, Cost, Fraction]]:
    """
    Raise AssertionError unless every bill lies within the bounds; returns what was compared.

    The provider *denied* machines that it billed: as far as can be known, their usage ended then.
    """
    by_instance, billed = await costs(engine, GroupBy(grouping=CostGrouping.INSTANCE)), bills(engine)
    compared = [(each, by_instance.get(each, Cost()), billed.get(each, Fraction(0))) for each in engine.requested]
    for instance_id, cost, bill in compared:
        shown = f"{instance_id}: {float(cost.low)} to {float(cost.high)}, billed {float(bill)}"
        assert cost.low <= bill + ROUNDING, f"above the bill: {shown}"
        assert bill <= cost.high + ROUNDING or instance_id in denied, f"below the bill: {shown}"
        assert cost.low <= cost.usd <= cost.high, shown
    return compared


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
        self.denied_ids: set[str] = set()

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
            self.denied_ids |= {
                instance_id
                for instance_id in self.engine.requested
                for machine in self.engine.machines(instance_id)
                if machine.hidden_until != NEVER
            }
            self._run(judge_bounds(self.engine, self.denied_ids))

    def teardown(self) -> None:
        super().teardown()
        if self.begun:
            self._run(judge_bounds(self.engine, self.denied_ids))
            self._run(judge_sums(self.engine))

    def _order(self, request: CreateRequest) -> CreateRequest:
        self.created += 1
        return replace(request, rootfs_gb=DISKS[self.created % len(DISKS)])
