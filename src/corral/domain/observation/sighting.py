"""
The state of an instance as the provider reports it, translated into Corral's terms.

A *sighting* is a fact and cannot be refused. What Corral makes of it is a *phase*.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from corral.domain.placement.catalog import PortKind


class Sighting(StrEnum):
    """The state of an instance at the provider."""

    ABSENT = "absent"
    """The provider does not have it (any more)."""
    BOOTING = "booting"
    """On its way up: being created, pulled or started."""
    RUNNING = "running"
    """It runs; whether its workload responds is not known."""
    RESTARTING = "restarting"
    """On its way down and up again."""
    STOPPING = "stopping"
    """On its way down."""
    EXITED = "exited"
    """Stopped; its disk is kept for some days."""
    REMOVING = "removing"
    """Being deleted; may still be billed."""
    MIGRATING = "migrating"
    """Being moved to another machine by the provider."""
    MOVING = "moving"
    """Changing: the provider's status is unknown to us."""


GOING = frozenset({Sighting.REMOVING, Sighting.ABSENT})
"""Sightings of an instance that is being removed, or is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where one port of an instance can be reached; `address` is None while the provider has not said."""

    port: int
    kind: PortKind
    address: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where a person logs in; passwords are only in `MachineAccess`, which no record and no cache holds."""

    ssh_command: str | None = None
    jupyter_address: str | None = None
    web_terminal_address: str | None = None

    def __repr__(self) -> str:
        return "Connection(...)"


class BootStage(StrEnum):
    """What is billed of a machine that boots."""

    NEW = "new"
    """Nothing; it has no disk yet."""
    STOPPED = "stopped"
    """Its GPUs are not yet; it was stopped before, and may have a disk."""
    BILLED = "billed"
    """Its GPUs and its disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderInstance:
    """One instance as the provider describes it. Fields it left out are None or empty."""

    id: str
    name: str
    sighting: Sighting
    provider_status: str
    """The provider's own status text, also if it is unknown to us."""
    cluster_id: str | None
    cluster_name: str | None
    product_id: str | None
    product_name: str | None
    gpu_num: int | None
    cpu_num: int | None
    memory_gb: int | None
    rootfs_gb: int | None
    image: str | None
    billing_mode: str | None
    endpoints: tuple[Endpoint, ...]
    connection: Connection | None
    """Only a lookup of the single instance has it; in a listing it is None."""
    failure: str | None
    """The provider's `statusError`, when it reports one."""
    spot_status: str | None
    spot_reclaim_at: datetime | None
    created_at: datetime | None
    started_at: datetime | None
    stopped_at: datetime | None
    ends_at: datetime | None
    env_names: tuple[str, ...]
    volume_mounts: tuple[str, ...]
    kind: str | None
    data_kept_until: datetime | None = None
    """When the data of a stopped machine is purged."""
    boot: BootStage | None = None
    """Of a booting one; None: the status does not say."""

    @property
    def region(self) -> str | None:
        """The region code, as in "CN-HK-01"; the cluster's id if the provider gives no name."""
        return (self.cluster_name or "").split("(")[0].strip() or self.cluster_id
