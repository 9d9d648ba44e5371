"""Money: whole micro-USD internally, decimal USD in responses."""

from __future__ import annotations

from decimal import Decimal

from corral.domain.placement.catalog import MICRO_USD


def usd(micro_usd: int) -> float:
    """The number in responses: 180000 becomes 0.18."""
    return micro_usd / MICRO_USD


def usd_text(micro_usd: int) -> str:
    """The exact amount for a sentence, without trailing zeros."""
    return f"{Decimal(micro_usd) / MICRO_USD:f} USD"


def micro_usd(amount: Decimal) -> int:
    """Whole micro-USD for *amount* USD, rounded down: a limit is never raised by rounding."""
    return int(amount * MICRO_USD)
