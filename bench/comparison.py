"""Measures Corral, alone or in turns with baselines that do the same work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from bench.figures import Figure, Row

Sample = Mapping[str, float]
"""What one round showed, by the name of the figure."""
Side = Callable[[], Awaitable[Sample]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Something simpler that does the same work."""

    name: str
    side: Side
    """Its sample may lack figures that it has none of."""
    targets: Mapping[str, float] = field(default_factory=dict[str, float])
    """The target of Corral's figure divided by the baseline's, by the name of the figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One piece of work that is measured."""

    title: str
    work: str
    """What a round does, and what each baseline is; printed under the table."""
    figures: tuple[Figure, ...]
    corral: Side
    baselines: tuple[Baseline, ...] = ()
    rounds: int = 5
    """An odd number, so that the median is a round that happened."""
    warm_up: bool = True
    """Whether each side first has a round that does not count."""


async def hold(comparison: Comparison) -> list[Row]:
    """Run all sides in turns; returns one row for each figure, or for each figure and baseline."""
    sides = (comparison.corral, *(baseline.side for baseline in comparison.baselines))
    if comparison.warm_up:
        for side in sides:
            await side()
    rounds = [[await side() for side in sides] for _ in range(comparison.rounds)]
    rows: list[Row] = []
    for figure in comparison.figures:
        ours = [samples[0][figure.name] for samples in rounds]
        others = [
            (baseline, [samples[place][figure.name] for samples in rounds])
            for place, baseline in enumerate(comparison.baselines, 1)
            if figure.name in rounds[0][place]
        ]
        if not others or figure.target is not None:
            rows.append(Row(title=comparison.title, figure=figure, corral=ours, target=figure.target))
        rows += [
            Row(
                title=comparison.title,
                figure=figure,
                corral=ours,
                baseline=baseline.name,
                theirs=theirs,
                target=baseline.targets.get(figure.name),
            )
            for baseline, theirs in others
        ]
    return rows
