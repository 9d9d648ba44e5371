"""Two sides that do the same work in turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from bench.figures import Figure, Row

Sample = Mapping[str, float]
"""What one round showed, by the name of the figure."""
Side = Callable[[], Awaitable[Sample]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Corral against something simpler at one piece of work."""

    title: str
    work: str
    """What a round does, and what the bare side is; printed under the table."""
    figures: tuple[Figure, ...]
    corral: Side
    bare: Side
    rounds: int = 5
    """An odd number, so that the median is a round that happened."""
    warm_up: bool = True
    """Whether each side first has a round that does not count."""


async def hold(contest: Contest) -> list[Row]:
    """Let both sides take turns, and answer one row a figure."""
    if contest.warm_up:
        await contest.corral()
        await contest.bare()
    pairs = [(await contest.corral(), await contest.bare()) for _ in range(contest.rounds)]
    return [
        Row(
            title=contest.title,
            figure=figure,
            corral=[ours[figure.name] for ours, _ in pairs],
            bare=[theirs[figure.name] for _, theirs in pairs],
        )
        for figure in contest.figures
    ]
