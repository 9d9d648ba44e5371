"""What an instance runs up, as far as we know."""

from __future__ import annotations

from corral.domain.instance import Instance
from corral.domain.lifecycle.tables import Phase
from corral.domain.observation.sighting import Sighting

_UNBILLED = frozenset({Phase.CREATING, Phase.EXITED, Phase.TERMINATED})
_IDLE = frozenset({Sighting.ABSENT, Sighting.EXITED})


def hourly_micro_usd(instance: Instance) -> int:
    """
    What it costs an hour now: its price from the moment the provider has it until it is stopped or gone.

    One that failed costs on unless the provider says that it does not run; one to be deleted, until it is gone.
    """
    if instance.provider_id is None or instance.placement is None or instance.phase in _UNBILLED:
        return 0
    if instance.phase is Phase.FAILED and instance.observation.sighting in _IDLE:
        return 0
    return instance.placement.micro_usd
