"""The arithmetic and the table of `make bench`; no timing decides a test."""

from __future__ import annotations

import math

import pytest
from bench import limited
from bench.burst import BURSTS, CPU, WHOLE, measured
from bench.comparison import Baseline, Comparison, Sample, Side, hold
from bench.figures import Figure, Row, Spread, number, percentile, spread, table
from bench.growth import figures, growth, rest
from bench.limited import ideal_seconds
from bench.provider import Account
from bench.requests import Accepted, Shown

SPEED = Figure(name="jobs", unit="1/s", more_is_better=True)
DELAY = Figure(name="p99", unit="ms")


def test_a_ratio_is_taken_within_its_round() -> None:
    """A slow minute of the machine slows both sides; the ratio of the medians would not see that."""
    row = Row(title="run", figure=SPEED, corral=[90, 45, 200], baseline="bare", theirs=[100, 50, 100])

    assert row.judged == Spread(median=0.9, lowest=0.9, highest=2.0)


def test_without_a_baseline_the_figure_itself_is_judged() -> None:
    """A delay of ours has a target whatever others need."""
    assert Row(title="run", figure=DELAY, corral=[3, 1, 2]).judged == Spread(median=2, lowest=1, highest=3)


def test_sides_with_a_different_number_of_rounds_are_refused() -> None:
    """A ratio of rounds that were not neighbours means nothing."""
    row = Row(title="run", figure=SPEED, corral=[1, 2], baseline="bare", theirs=[1])

    with pytest.raises(ValueError, match="shorter"):
        _ = row.judged


@pytest.mark.parametrize(
    ("figure", "target", "expected"),
    [
        (SPEED, 2.0, True),
        (SPEED, 2.1, False),
        (DELAY, 2.0, True),
        (DELAY, 1.9, False),
        (DELAY, None, True),
    ],
)
def test_a_target_is_met_in_the_direction_that_is_better(
    figure: Figure, target: float | None, *, expected: bool
) -> None:
    """More of a speed, less of a delay; exactly the target will do."""
    assert Row(title="run", figure=figure, corral=[2, 9, 1], target=target).is_met is expected


def test_a_spread_is_the_median_and_the_range() -> None:
    """One wild round moves the range and not the median."""
    assert spread([3, 1, 100]) == Spread(median=3, lowest=1, highest=100)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_a_percentile_is_a_value_that_occurred(share: float, expected: int) -> None:
    """Nothing is interpolated: the p99 of a hundred waits is one of them."""
    assert percentile(list(range(100, 0, -1)), share) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (0.03604, "0.0360"),
        (0.99951, "1.00"),
        (9.876, "9.88"),
        (58.44, "58.4"),
        (523.4, "523"),
        (12_249, "12,200"),
        (math.nan, "-"),
    ],
)
def test_numbers_have_three_digits_that_count(value: float, expected: str) -> None:
    """More would claim a precision that a shared machine does not have."""
    assert number(value) == expected


def test_the_table_lines_up() -> None:
    """It is read in a terminal as often as on a page."""
    rows = [
        Row(
            title="run",
            figure=SPEED,
            corral=[2000, 2200, 2100],
            baseline="bare",
            theirs=[2000, 2000, 2000],
            target=1.2,
        ),
        Row(title="ready", figure=DELAY, corral=[math.nan]),
        Row(title="ready", figure=DELAY, corral=[3, 4, 5], target=4),
    ]

    assert table(rows) == (
        "| what       | unit | better | beside | Corral | baseline | ratio | range of the rounds | target | result |\n"
        "| ---------- | ---- | ------ | ------ | -----: | -------: | ----: | ------------------: | -----: | -----: |\n"
        "| run: jobs  | 1/s  | more   | bare   |  2,100 |    2,000 |  1.05 |        1.00 to 1.10 | ≥ 1.20 | missed |\n"
        "| ready: p99 | ms   | less   |        |      - |          |       |                   - |        |        |\n"
        "| ready: p99 | ms   | less   |        |   4.00 |          |       |        3.00 to 5.00 | ≤ 4.00 |    met |\n"
    )


async def test_sides_take_turns_and_the_first_turn_does_not_count() -> None:
    """Whatever slows the machine for a while slows all."""
    turns: list[str] = []

    def side(name: str) -> Side:
        async def turn() -> Sample:
            turns.append(name)
            return {"jobs": float(len(turns)), "p99": 1.0}

        return turn

    baselines = (
        Baseline(name="bare", side=side("bare"), targets={"jobs": 0.5}),
        Baseline(name="other", side=side("other")),
    )
    held = await hold(
        Comparison(title="run", work="", figures=(SPEED, DELAY), corral=side("corral"), baselines=baselines, rounds=2)
    )

    assert turns == ["corral", "bare", "other"] * 3
    assert held == [
        Row(title="run", figure=SPEED, corral=[4.0, 7.0], baseline="bare", theirs=[5.0, 8.0], target=0.5),
        Row(title="run", figure=SPEED, corral=[4.0, 7.0], baseline="other", theirs=[6.0, 9.0]),
        Row(title="run", figure=DELAY, corral=[1.0, 1.0], baseline="bare", theirs=[1.0, 1.0]),
        Row(title="run", figure=DELAY, corral=[1.0, 1.0], baseline="other", theirs=[1.0, 1.0]),
    ]


async def test_alone_corral_has_one_row_a_figure() -> None:
    """With the target of the figure itself."""
    aimed = Figure(name="p99", unit="ms", target=100)

    async def corral() -> Sample:
        return {"p99": 50.0}

    held = await hold(Comparison(title="burst", work="", figures=(aimed,), corral=corral, rounds=1))

    assert held == [Row(title="burst", figure=aimed, corral=[50.0], target=100)]


def test_a_burst_is_judged_by_what_the_provider_saw() -> None:
    """Lag is counted from running there to ready here; a machine that belongs to no create was made twice."""
    shown = [Shown(provider_id="a", ready_at=107.0), Shown(provider_id="b", ready_at=109.0)]
    account = Account(
        ran_at={"a": 106.0, "b": 106.5, "lost": 106.2}, asked_at={"a": 101.0, "b": 101.5, "lost": 101.2}, billed_twice=0
    )

    figures = measured(
        Accepted(began=100.0, seconds=1.0, waits=[0.02, 0.04]), shown, account, {"create": 3, "get": 2, "list": 9}
    )

    assert figures == {
        "all ready after": 9.0,
        "all accepted after": 1.0,
        "POST median": 20.0,
        "POST p99": 40.0,
        "all created after": 1.5,
        "all ready after the last could be": 2.5,
        "lag median": 1.0,
        "lag p99": 2.5,
        "lag longest": 2.5,
        "provider calls an instance": 2.5,
        "list pages": 9.0,
        "made or billed twice": 1.0,
    }


async def test_an_ideal_has_only_the_figures_it_is_an_ideal_of() -> None:
    """A row without a baseline is Corral's alone."""

    async def corral() -> Sample:
        return {"jobs": 50.0, "p99": 3.0}

    async def ideal() -> Sample:
        return {"jobs": 100.0}

    beside = (Baseline(name="ideal", side=ideal),)
    held = await hold(
        Comparison(title="run", work="", figures=(SPEED, DELAY), corral=corral, baselines=beside, rounds=1)
    )

    assert held == [
        Row(title="run", figure=SPEED, corral=[50.0], baseline="ideal", theirs=[100.0]),
        Row(title="run", figure=DELAY, corral=[3.0]),
    ]


def test_a_burst_has_the_target_of_its_size() -> None:
    """A kill costs time by design, and its CPU is that of two processes."""
    named = [{figure.name: figure.target for figure in burst.figures} for burst in BURSTS]

    assert [(targets[WHOLE.name], targets[CPU.name]) for targets in named] == [
        (11, 5),
        (None, 5),
        (None, None),
        (25, 5),
    ]


def test_what_was_there_before_a_burst_is_no_part_of_it() -> None:
    """Neither of its times nor of what was made."""
    account = Account(ran_at={"old": 1.0, "new": 9.0}, asked_at={"old": 0.5, "new": 8.5}, billed_twice=0)

    assert account.without({"old"}) == Account(ran_at={"new": 9.0}, asked_at={"new": 8.5}, billed_twice=0)


def test_cost_of_growth_is_per_instance_and_cost_at_rest_per_minute() -> None:
    """List pages grow with time and not with creates, so they are not part of the cost of an instance."""
    before, after = {"list": 5, "create": 100}, {"list": 25, "create": 110, "get": 10}

    assert growth(10, 0.05, before, after) == {"CPU of the service an instance": 5.0, "provider calls an instance": 2.0}
    assert rest(30.0, 0.3, before, after) == {"CPU at rest": 1.0, "provider calls at rest": 80.0}


def test_a_fleet_has_the_targets_of_its_size() -> None:
    """What 1,000 instances may cost at rest says nothing of 100."""
    assert [f.target for f in figures(1000) if f.name == "CPU at rest"] == [1.5]
    assert [f.target for f in figures(100) if f.name == "CPU at rest"] == [None]


@pytest.mark.parametrize(
    ("machines", "limit", "expected"), [(120, 100, 125), (50, 100, 5), (51, 100, 65), (100, 100, 65), (120, 300, 5)]
)
def test_the_ideal_uses_whole_minutes_from_their_first_second(machines: int, limit: int, expected: float) -> None:
    """Two calls a machine: 240 need three minutes of 100, and the last machine boots meanwhile."""
    assert ideal_seconds(machines, limit, boot_seconds=5) == expected


def test_a_limited_run_is_judged_by_the_providers_own_count() -> None:
    """What was refused is counted as a call, too: the provider may count it."""
    endpoints: dict[str, dict[str, object]] = {
        "create": {"total": 124, "outcomes": {"200": 120, "429": 4}},
        "get": {"total": 120, "outcomes": {"200": 120}},
        "list": {"total": 8, "outcomes": {"200": 8}},
    }
    found = limited.measured(1000.0, 1130.0, endpoints)

    assert [found[name] for name in ("all ready after", "list pages", "calls refused (429)")] == [130.0, 8, 4]
    assert found["provider calls a machine"] == 252 / 120
