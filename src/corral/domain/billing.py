"""What an instance costs now, as far as Corral knows."""

from __future__ import annotations

from corral.domain.instance import Instance
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.sighting import Sighting

_UNBILLED = frozenset({Phase.CREATING, Phase.EXITED, Phase.TERMINATED})
_IDLE = frozenset({Sighting.ABSENT, Sighting.EXITED})


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
