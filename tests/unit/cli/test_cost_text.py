"""Costs as the shell shows them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from corral.cli.commands.costs.budgets import set_budget
from corral.cli.cost_text import balance_line, causes_table, forecast_lines, money, report_notes, report_table
from corral.cli.table import table_lines
from corral.domain.budgets.budget import BudgetPeriod
from corral.domain.errors import MalformedError
from corral_client import (
    Account,
    Amount,
    Balance,
    BudgetEnd,
    CauseCost,
    CostGroup,
    CostSummary,
    Forecast,
    MonthForecast,
)

NOW = datetime(2026, 11, 17, 2, 30, tzinfo=UTC)
REPORT = CostSummary(
    since=datetime(2026, 11, 16, tzinfo=UTC),
    until=NOW,
    total=Amount(usd=1240.5, low=1238.0, high=1245.004),
    groups=[
        CostGroup(key="vision-and-a-rather-long-name", usd=1200.0, low=1198.0, high=1204.0),
        CostGroup(key=None, usd=40.496, low=40.0, high=41.0),
        CostGroup(key="audio", usd=0.004, low=0.0, high=0.004),
    ],
)


def _lines(report: CostSummary, width: int | None) -> list[str]:
    return [line.plain for line in table_lines(*report_table(report, "label:team"), width)]


def test_amounts_stand_below_each_other_and_add_up() -> None:
    """The last row is the total; what has no value is named."""
    assert _lines(REPORT, None) == [
        "TEAM                                COST  SHARE        LOW       HIGH",
        "vision-and-a-rather-long-name  $1,200.00   97 %  $1,198.00  $1,204.00",
        "(none)                            $40.50    3 %     $40.00     $41.00",
        "audio                             <$0.01    0 %      $0.00     <$0.01",
        "total                          $1,240.50  100 %  $1,238.00  $1,245.00",
    ]


def test_an_empty_label_is_not_shown_as_a_missing_one() -> None:
    groups = [CostGroup(key=key, usd=1.0, low=1.0, high=1.0) for key in ("", None)]
    report = CostSummary(since=REPORT.since, until=NOW, total=Amount(usd=2.0, low=2.0, high=2.0), groups=groups)

    assert [line.split()[0] for line in _lines(report, None)] == ["TEAM", '""', "(none)", "total"]


@pytest.mark.parametrize(("width", "heading"), [(60, "TEAM"), (40, "TEAM"), (24, "TEAM")])
def test_a_narrow_terminal_keeps_the_name_and_the_cost(width: int, heading: str) -> None:
    """Bounds go first, the share then; nothing is broken over two lines."""
    lines = _lines(REPORT, width)

    assert lines[0].startswith(heading)
    assert all(len(line) <= width for line in lines)
    assert all("COST" in lines[0] and "$" in line for line in lines[1:])


def test_a_report_of_nothing_has_only_a_total() -> None:
    """Nothing is divided by zero."""
    nothing = Amount(usd=0, low=0, high=0)
    empty = CostSummary(since=NOW, until=NOW, total=nothing, groups=[], estimated=True)

    assert _lines(empty, None)[1:] == ["total  $0.00      -  $0.00  $0.00"]
    assert report_notes(empty) == [
        "From 2026-11-17 02:30 to 2026-11-17 02:30 UTC.",
        "Some prices are estimated: the provider's were not known.",
    ]


def test_a_forecast_says_what_stays_and_how_long_the_money_lasts() -> None:
    """A sentence each; a budget that lasts has none."""
    some = Amount(usd=1.84, low=1.8, high=1.9)
    month = MonthForecast(
        since=datetime(2026, 11, 1, tzinfo=UTC),
        until=datetime(2026, 12, 1, tzinfo=UTC),
        so_far=Amount(usd=210, low=209, high=212),
        expected=Amount(usd=640.25, low=639, high=642),
    )
    causes = [CauseCost(cause="stopped_disk", machines=2, usd_per_hour=0.01, so_far=some)]
    account = Account(
        balance=Balance(available_usd=52.5),
        usd_per_hour=1.32,
        runs_out_at=NOW + timedelta(days=1, hours=15, seconds=50),
    )

    ends = [
        BudgetEnd(name="vision", usd_per_hour=1, runs_out_at=NOW + timedelta(minutes=90)),
        BudgetEnd(name="all", usd_per_hour=0),
    ]
    assert forecast_lines(
        Forecast(at=NOW, usd_per_hour=1.32, causes=causes, month=month, budgets=ends), account, NOW
    ) == [
        "Now $1.32/h.",
        "November: $210.00 so far, $640.25 at its end if that stays.",
        "Balance $52.50; it lasts 1 d 15 h at this rate.",
        "Budget vision: used up in 1 h 30 min at this rate.",
    ]
    assert [line.plain for line in table_lines(*causes_table(causes), 60)] == [
        "CAUSE         MACHINES  NOW      SO FAR",
        "stopped disk  2         $0.01/h  $1.84",
    ]


@pytest.mark.parametrize(
    ("account", "said"),
    [
        (Account(balance=None, problem="the provider did not answer", usd_per_hour=1),
         "The balance is not known: the provider did not answer."),
        (Account(balance=Balance(available_usd=5), usd_per_hour=0), "Balance $5.00; it does not run out at this rate."),
        (Account(balance=Balance(available_usd=5), usd_per_hour=0, runs_out_at=NOW + timedelta(days=400)),
         "Balance $5.00; it lasts for more than a year at this rate."),
        (Account(balance=Balance(available_usd=0), usd_per_hour=1, runs_out_at=NOW), "Balance $0.00: it is used up."),
    ],
)  # fmt: skip
def test_a_balance_that_is_unknown_used_up_or_endless_is_said_so(account: Account, said: str) -> None:
    """A missing number is never shown as 0."""
    assert balance_line(account, NOW) == said


def test_less_than_a_cent_is_not_nothing() -> None:
    """And nothing is."""
    assert [money(usd) for usd in (0, 0.004, 0.01, 1234.5)] == ["$0.00", "<$0.01", "$0.01", "$1,234.50"]


@pytest.mark.parametrize("limit", [math.nan, math.inf])
def test_a_limit_that_is_no_number_is_refused_by_the_name_of_its_option(limit: float) -> None:
    """JSON has none of these: the service would only miss the field."""
    with pytest.raises(MalformedError, match="--limit must be a number"):
        set_budget("vision", limit=limit, period=BudgetPeriod.DAY)
