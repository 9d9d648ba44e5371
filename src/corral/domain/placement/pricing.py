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


def hourly_micro_usd(instance: Instance) -> int:
    """
    The hourly cost: the instance's price from when the provider has it until it is stopped or gone.

    A failed instance still costs money unless the provider reports that it does not run.
    """
    if instance.provider_id is None or instance.placement is None or instance.phase in _UNBILLED:
        return 0
    if instance.phase is Phase.FAILED and instance.observation.sighting in _IDLE:
        return 0
    return instance.placement.micro_usd
