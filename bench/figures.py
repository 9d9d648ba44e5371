"""The arithmetic and the table: pure, so that a test can hold them to account."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

UNKNOWN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that is measured in every round of a comparison."""

    name: str
    unit: str
    more_is_better: bool = False
    target: float | None = None
    """What Corral itself is to reach, whatever others do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The middle of some values, and how far apart they lie."""

    median: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one comparison: Corral's value in each round, and the baseline's if there is one."""

    title: str
    figure: Figure
    corral: Sequence[float]
    baseline: str = ""
    theirs: Sequence[float] = ()
    target: float | None = None
    """Of the ratio, or of Corral's own figure when there is no baseline."""

    @property
    def judged(self) -> Spread:
        """What the target is held against: the ratios, each round by itself, or Corral's own figures."""
        if not self.baseline:
            return spread(self.corral)
        # Neighbours in time meet the same noise.
        return spread([ours / theirs for ours, theirs in zip(self.corral, self.theirs, strict=True)])

    @property
    def is_met(self) -> bool:
        """Whether the middle of the rounds reaches the target; True when there is none."""
        reached, target = self.judged.median, self.target
        if target is None:
            return True
        return reached >= target if self.figure.more_is_better else reached <= target


def spread(values: Sequence[float]) -> Spread:
    """Median and range of *values*, of which there must be some."""
    return Spread(median=statistics.median(values), lowest=min(values), highest=max(values))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of *values* that at least *share* (0 to 1) of them do not exceed."""
    rank = max(1, math.ceil(share * len(values)))
    return sorted(values)[rank - 1]


def number(value: float) -> str:
    """*value* with three significant digits, and thousands apart; an unknown one is a dash."""
    if math.isnan(value):
        return UNKNOWN
    if value == 0:
        return "0"
    rounded = float(f"{value:.2e}")
    return f"{rounded:,.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"


def table(rows: Sequence[Row]) -> str:
    """Every row, as aligned Markdown."""
    head = (
        "what",
        "unit",
        "better",
        "beside",
        "Corral",
        "baseline",
        "ratio",
        "range of the rounds",
        "target",
        "result",
    )
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    rule = [("-" * width) if column < _WORDS else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return "\n".join(_line(line, widths) for line in [head, rule, *cells[1:]]) + "\n"


_WORDS = 4
"""So many columns are text and aligned left; the rest are numbers and aligned right."""


def _cells(row: Row) -> tuple[str, ...]:
    judged = row.judged
    span = UNKNOWN if math.isnan(judged.median) else f"{number(judged.lowest)} to {number(judged.highest)}"
    sign = "≥" if row.figure.more_is_better else "≤"
    return (
        f"{row.title}: {row.figure.name}",
        row.figure.unit,
        "more" if row.figure.more_is_better else "less",
        row.baseline,
        number(spread(row.corral).median),
        number(spread(row.theirs).median) if row.baseline else "",
        number(judged.median) if row.baseline else "",
        span,
        "" if row.target is None else f"{sign} {number(row.target)}",
        "" if row.target is None else "met" if row.is_met else "missed",
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if column < _WORDS else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"
