"""Money: whole micro-USD internally, decimal USD in responses; what an instance costs now."""

from __future__ import annotations

from decimal import Decimal

from corral.domain.instance import Instance
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.placement.catalog import MICRO_USD

_UNBILLED = frozenset({Phase.CREATING, Phase.EXITED, Phase.TERMINATED})
_IDLE = frozenset({Sighting.ABSENT, Sighting.EXITED})


def usd(micro_usd: int) -> float:
    """The number in responses: 180000 becomes 0.18."""
    return micro_usd / MICRO_USD


def usd_text(micro_usd: int) -> str:
    """The exact amount for a sentence, without trailing zeros."""
    return f"{Decimal(micro_usd) / MICRO_USD:f} USD"


def micro_usd(amount: Decimal) -> int:
    """Whole micro-USD for *amount* USD, rounded down: a limit is never raised by rounding."""
    return int(amount * MICRO_USD)


def is_billed(phase: Phase, sighting: Sighting | None) -> bool:
    """
    Whether a machine that the provider has costs money in *phase*: until it is stopped or gone.

    A failed one does unless the last *sighting* shows that it does not run.
    """
    return phase not in _UNBILLED and not (phase is Phase.FAILED and sighting in _IDLE)


def hourly_micro_usd(instance: Instance) -> int:
    """The hourly cost: the instance's price while it is billed, else 0."""
    if instance.provider_id is None or instance.placement is None:
        return 0
    return instance.placement.micro_usd if is_billed(instance.phase, instance.observation.sighting) else 0
