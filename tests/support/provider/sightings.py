"""Instances as a provider describes them, with nothing said but what the test says."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from corral.domain.observation.sighting import ProviderInstance, Sighting


def shown(
    provider_id: str, sighting: Sighting, *, name: str = "corral-0a1b2c-inst-a1-1", **said: Any
) -> ProviderInstance:
    unsaid: dict[str, Any] = dict.fromkeys((field.name for field in fields(ProviderInstance)), None)
    empty: dict[str, Any] = {"endpoints": (), "env_names": (), "volume_mounts": ()}
    known: dict[str, Any] = {"id": provider_id, "name": name, "sighting": sighting, "provider_status": sighting.value}
    return ProviderInstance(**unsaid | empty | known | said)
