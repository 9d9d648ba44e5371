"""Money: counted in whole micro-USD inside, shown as decimal USD outside."""

from __future__ import annotations

from decimal import Decimal

from corral.domain.placement.catalog import MICRO_USD


def usd(micro_usd: int) -> float:
    """The number an answer shows: 180000 is 0.18."""
    return micro_usd / MICRO_USD


def usd_text(micro_usd: int) -> str:
    """The amount in a sentence, exactly and without needless zeros."""
    return f"{Decimal(micro_usd) / MICRO_USD:f} USD"


def micro_usd(amount: Decimal) -> int:
    """Whole micro-USD for *amount* USD, rounded down: a limit is never raised by rounding."""
    return int(amount * MICRO_USD)
