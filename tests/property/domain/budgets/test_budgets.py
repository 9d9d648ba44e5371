"""Periods, admission and announcements of budgets, for every time, order and amount."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from corral.domain.budgets.admission import WantedReservation, admit
from corral.domain.budgets.announcements import Announced, due
from corral.domain.budgets.budget import (
    Budget,
    BudgetPeriod,
    LimitAction,
    began_at,
    resets_at,
    scopes_of,
    standing,
)
from corral.domain.events import EventType

TIMES = st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2040, 1, 1)).map(  # noqa: DTZ001  # made aware here
    lambda naive: naive.replace(tzinfo=UTC)
)
SCOPES = st.sampled_from(["all", "label:team=a", "label:team=b", "key:olga"])
OWNERS = st.builds(
    scopes_of,
    st.sampled_from([None, "olga", "ci"]),
    st.sampled_from([(), (("team", "a"),), (("team", "b"),), (("gpu", "x"), ("team", "a"))]),
)
NOW = datetime(2030, 1, 1, 12, 30, tzinfo=UTC)


@given(period=st.sampled_from(BudgetPeriod), now=TIMES, offset=st.integers(-12, 14))
def test_every_instant_is_in_one_period_and_the_next_begins_when_it_resets(
    period: BudgetPeriod, now: datetime, offset: int
) -> None:
    """By UTC, in whatever zone the time is given; no gap and no overlap."""
    began, resets = began_at(period, now), resets_at(period, now)
    elsewhere = now.astimezone(timezone(timedelta(hours=offset)))
    assert (began_at(period, elsewhere), resets_at(period, elsewhere)) == (began, resets)
    assert began <= now
    if period is BudgetPeriod.TOTAL:
        assert resets is None
        return
    assert resets is not None
    assert now < resets
    assert began_at(period, resets) == resets
    assert began_at(period, resets - timedelta(microseconds=1)) == began
    longest = {BudgetPeriod.HOUR: 1, BudgetPeriod.DAY: 24, BudgetPeriod.MONTH: 31 * 24}[period]
    shortest = 28 * 24 if period is BudgetPeriod.MONTH else longest
    assert timedelta(hours=shortest) <= resets - began <= timedelta(hours=longest)


BUDGETS = st.lists(
    st.tuples(SCOPES, st.integers(1, 1000), st.sampled_from(LimitAction), st.integers(0, 1200), st.integers(0, 300)),
    max_size=4,
)


@given(
    rows=BUDGETS,
    wanted=st.lists(st.builds(WantedReservation, micro_usd=st.integers(0, 400), scopes=OWNERS), max_size=8),
)
def test_what_is_admitted_fits_into_every_budget_and_what_is_refused_does_not(
    rows: list[tuple[str, int, LimitAction, int, int]], wanted: list[WantedReservation]
) -> None:
    """Judged by adding up: no limit is exceeded, no request is refused that fits, and `notify` refuses nothing."""
    standings = [
        standing(
            Budget(name=f"b{n}", scope=scope, period=BudgetPeriod.DAY, limit_micro_usd=limit, on_limit=on_limit),
            NOW,
            spent=spent,
            reserved=reserved,
        )
        for n, (scope, limit, on_limit, spent, reserved) in enumerate(rows)
    ]
    used = [spent + reserved for _, _, _, spent, reserved in rows]
    for request, why in zip(wanted, admit(wanted, standings), strict=True):
        asked = [n for n, row in enumerate(rows) if row[0] in request.scopes and row[2] is not LimitAction.NOTIFY]
        refusing = [n for n in asked if used[n] + request.micro_usd > rows[n][1] or used[n] >= rows[n][1]]
        if why is None:
            assert not refusing
            for n in asked:
                used[n] += request.micro_usd
        else:
            assert why.standing.budget.name == f"b{refusing[0]}"
            assert why.standing.spent + why.standing.reserved == used[refusing[0]]


@given(
    limit=st.integers(1, 1000),
    thresholds=st.sets(st.decimals("0.01", "2", places=2), max_size=4),
    spending=st.lists(st.tuples(st.integers(0, 90), st.integers(0, 300)), max_size=20),
)
def test_each_threshold_is_reported_once_a_period_and_in_order(
    limit: int, thresholds: set[Decimal], spending: list[tuple[int, int]]
) -> None:
    """Over any spending with any pauses: exactly those that were reached, the lowest first, and the limit once."""
    budget = Budget(
        name="day",
        scope="all",
        period=BudgetPeriod.HOUR,
        limit_micro_usd=limit,
        thresholds=tuple(sorted(thresholds)),
    )
    announced, now, spent, period = Announced(), NOW, 0, began_at(BudgetPeriod.HOUR, NOW)
    reported: list[Decimal] = []
    exhausted = 0
    for minutes, amount in spending:
        now += timedelta(minutes=minutes)
        if began_at(BudgetPeriod.HOUR, now) != period:
            period, spent, reported, exhausted = began_at(BudgetPeriod.HOUR, now), 0, [], 0
        spent += amount
        announced, events = due(standing(budget, now, spent=spent, reserved=0), announced, now)
        new = [Decimal(str(e.data["threshold"])) for e in events if e.type is EventType.BUDGET_THRESHOLD]
        assert new == sorted(new)
        reported += new
        exhausted += sum(e.type is EventType.BUDGET_EXHAUSTED for e in events)
        assert sorted(reported) == sorted(each for each in thresholds if spent >= each * limit)
        assert exhausted == (1 if spent >= limit else 0)
        assert due(standing(budget, now, spent=spent, reserved=0), announced, now) == (announced, [])
