"""Costs: sums of usage with their bounds, and by what they are grouped. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from corral.domain.placement.catalog import MICRO_USD


class CostGrouping(StrEnum):
    """By what costs are grouped; a label is named in `GroupBy`."""

    INSTANCE = "instance"
    KEY = "key"
    PRODUCT = "product"
    REGION = "region"
    CAUSE = "cause"
    DAY = "day"
    LABEL = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBy:
    """By what costs are grouped."""

    grouping: CostGrouping
    label: str = ""
    """The key of the label, if they are grouped by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostScope:
    """Which usage is counted; all of it if nothing is given."""

    label: tuple[str, str] | None = None
    """Key and value."""
    key: str | None = None
    """The name of the API key that created it."""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """
    An amount in micro-USD, exact: the true cost is not below *low* and not above *high*.

    *usd* is the midpoint: every edge of usage that is not known exactly is taken to be in the middle of its bounds.
    """

    low: Fraction = Fraction(0)
    usd: Fraction = Fraction(0)
    high: Fraction = Fraction(0)
    is_estimated: bool = False
    """Whether the price of a part of it is not the one that was agreed when the machine was created."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            low=self.low + other.low,
            usd=self.usd + other.usd,
            high=self.high + other.high,
            is_estimated=self.is_estimated or other.is_estimated,
        )

    def without(self, part: Cost) -> Cost:
        """What is left of this cost without *part*, which it contains."""
        return Cost(
            low=self.low - part.low,
            usd=self.usd - part.usd,
            high=self.high - part.high,
            is_estimated=self.is_estimated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostGroup:
    """The cost of one group."""

    key: str | None
    """What the group has in common: an instance's id, the name of a key, a day, …; None: what has none of these."""
    cost: Cost
    days: tuple[CostGroup, ...] = ()
    """Its days, in their order, if they were requested: those on which it may have been billed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownUsage:
    """Usage that an earlier release did not record, and that its event log did not show."""

    before: datetime
    """All of it was before this."""
    instances: int
    """Of how many instances that the database has."""


def dollars(micro_usd: Fraction) -> float:
    """The number in responses."""
    return float(micro_usd / MICRO_USD)
