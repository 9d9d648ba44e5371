"""The account's network volumes, cached for minutes, and the cluster that a request's volumes are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.cache.registry import CacheName, CacheRegistry
from corral.cloud.port import Cloud
from corral.domain.container import VolumeMount
from corral.domain.errors import CallerError, NotFoundError
from corral.domain.placement.catalog import Volume

MISSING_MAX_AGE_SECONDS: Final = 2.0
"""How old the list may be that a volume is missing from. Longer, and a volume that was just created is refused;
shorter, and each request with an unknown volume reads the list by itself."""
_KEY: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    volumes: tuple[Volume, ...]
    read_at: float


class Volumes:
    """The account's network volumes. Any call may raise a CloudError."""

    def __init__(self, cloud: Cloud, caches: CacheRegistry, clock: Clock) -> None:
        self._cloud = cloud
        self._clock = clock
        self._lists: Cache[_Read] = caches[CacheName.VOLUMES]

    async def all(self) -> tuple[Volume, ...]:
        """Every volume, by name."""
        return (await self._lists.get(_KEY, self._load)).volumes

    async def cluster_of(self, mounts: Sequence[VolumeMount]) -> str:
        """
        The cluster that all volumes of *mounts* are in.

        Raises NotFoundError VOLUME_NOT_FOUND for unknown ones, CallerError VOLUME_ELSEWHERE if they are in several.
        """
        found = await self._find(mounts)
        if len({volume.cluster_id for volume in found}) > 1:
            places = ", ".join(f"{volume.id} in {volume.region}" for volume in found)
            raise CallerError(f"the volumes are in different regions: {places}", code="VOLUME_ELSEWHERE")
        return found[0].cluster_id

    async def _find(self, mounts: Sequence[VolumeMount]) -> list[Volume]:
        held = await self._lists.get(_KEY, self._load)
        missing = {mount.id for mount in mounts} - {volume.id for volume in held.volumes}
        if missing and self._clock.monotonic() - held.read_at > MISSING_MAX_AGE_SECONDS:
            self._lists.drop(_KEY)
            held = await self._lists.get(_KEY, self._load)
        by_id = {volume.id: volume for volume in held.volumes}
        unknown = [mount.id for mount in mounts if mount.id not in by_id]
        if unknown:
            raise NotFoundError(f"the account has no volume {', '.join(unknown)}", code="VOLUME_NOT_FOUND")
        return [by_id[mount.id] for mount in mounts]

    async def _load(self) -> _Read:
        found = sorted(await self._cloud.volumes(), key=lambda volume: (volume.name.casefold(), volume.id))
        return _Read(volumes=tuple(found), read_at=self._clock.monotonic())
