"""The arithmetic and the table of `make bench`; no timing decides a test."""

from __future__ import annotations

import math

import pytest
from bench.contest import Contest, Sample, hold
from bench.figures import Figure, Row, Spread, number, percentile, spread, table

SPEED = Figure(name="jobs", unit="1/s", more_is_better=True)
DELAY = Figure(name="p99", unit="ms")


def test_a_ratio_is_taken_within_its_round() -> None:
    """A slow minute of the machine slows both sides; the ratio of the medians would not see that."""
    row = Row(title="run", figure=SPEED, corral=[90, 45, 200], bare=[100, 50, 100])

    assert row.ratios == [0.9, 0.9, 2.0]


def test_sides_with_a_different_number_of_rounds_are_refused() -> None:
    """A ratio of rounds that were not neighbours means nothing."""
    row = Row(title="run", figure=SPEED, corral=[1, 2], bare=[1])

    with pytest.raises(ValueError, match="shorter"):
        _ = row.ratios


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
        Row(title="run", figure=SPEED, corral=[2000, 2200, 2100], bare=[2000, 2000, 2000]),
        Row(title="commit to start", figure=DELAY, corral=[math.nan], bare=[math.nan]),
    ]

    assert table(rows) == (
        "| what                 | unit | better | Corral |  bare | Corral ÷ bare | range of the rounds |\n"
        "| -------------------- | ---- | ------ | -----: | ----: | ------------: | ------------------: |\n"
        "| run: jobs            | 1/s  | more   |  2,100 | 2,000 |          1.05 |        1.00 to 1.10 |\n"
        "| commit to start: p99 | ms   | less   |      - |     - |             - |                   - |\n"
    )


async def test_sides_take_turns_and_the_first_turn_does_not_count() -> None:
    """Whatever slows the machine for a while slows both."""
    turns: list[str] = []

    async def corral() -> Sample:
        turns.append("corral")
        return {"jobs": float(len(turns)), "p99": 1.0}

    async def bare() -> Sample:
        turns.append("bare")
        return {"jobs": float(len(turns)), "p99": 2.0}

    rows = await hold(Contest(title="run", work="", figures=(SPEED, DELAY), corral=corral, bare=bare, rounds=2))

    assert turns == ["corral", "bare"] * 3
    assert rows == [
        Row(title="run", figure=SPEED, corral=[3.0, 5.0], bare=[4.0, 6.0]),
        Row(title="run", figure=DELAY, corral=[1.0, 1.0], bare=[2.0, 2.0]),
    ]
