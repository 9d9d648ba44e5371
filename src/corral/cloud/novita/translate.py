"""
Translates the provider's answers into our types. Templates and create bodies are in `templates.py`.

Pure and total: an odd value becomes None, an unknown state MOVING; nothing here raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from corral.cloud.novita import values, wire
from corral.domain.machine.access import MachineAccess, ssh_target, web_address
from corral.domain.observation.sighting import BootStage, Connection, Endpoint, ProviderInstance, Sighting
from corral.domain.placement.catalog import BillingMode, Cluster, PortKind, Product, Volume, region_code

SIGHTINGS: Final[Mapping[str, Sighting]] = {
    "pending": Sighting.BOOTING,
    "tocreate": Sighting.BOOTING,
    "creating": Sighting.BOOTING,
    "pulling": Sighting.BOOTING,
    "tostart": Sighting.BOOTING,
    "starting": Sighting.BOOTING,
    "toreset": Sighting.BOOTING,
    "resetting": Sighting.BOOTING,
    "running": Sighting.RUNNING,
    "tostop": Sighting.STOPPING,
    "stopping": Sighting.STOPPING,
    "freezing": Sighting.STOPPING,
    "frozen": Sighting.STOPPING,
    "exited": Sighting.EXITED,
    "torestart": Sighting.RESTARTING,
    "restarting": Sighting.RESTARTING,
    "toremove": Sighting.REMOVING,
    "removing": Sighting.REMOVING,
    "removed": Sighting.ABSENT,
    "migrating": Sighting.MIGRATING,
}
"""
Every status with a known meaning, in lower case.

`freezing` is documented without a meaning, and `frozen` would follow it: such a machine cannot be used, and may
still be billed, so it counts as stopping.
"""

_BOOT_STAGES: Final[Mapping[str, BootStage]] = {
    "pending": BootStage.NEW,
    "tocreate": BootStage.NEW,
    "creating": BootStage.NEW,
    "pulling": BootStage.BILLED,
    "tostart": BootStage.STOPPED,
    "starting": BootStage.BILLED,
}
"""What is billed of a machine that boots, by status; a failed one may stay `pulling` without being billed."""

_KINDS: Final[Mapping[str, PortKind]] = {kind.value: kind for kind in PortKind}
"""How a port is reached, by the provider's word; TCP for any other."""

MICRO_USD_PER_PRICE_UNIT: Final = 10
"""The provider counts in 1/100000 USD."""

MOST_MICRO_USD: Final = 10**15
"""A thousand million dollars an hour; a higher price is an error."""

MOST_GPUS: Final = 64
"""Of one instance; another number, of which a price would be the multiple, is an error."""

MOST_LABEL_LENGTH: Final = 1000
"""Names, statuses and addresses are stored for each instance; longer ones are cut."""
MOST_PARTS: Final = 100
"""Ports, variables and disks of one instance: the provider allows far fewer."""

MOST_FAILURE_LENGTH: Final = 500
"""A failure is shown and stored for each instance; longer ones, such as traces, are cut."""

_MILLISECONDS_FROM: Final = 1e11
"""Seconds reach this number in the year 5138."""
_PURGES: Final = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
"""Between these a time can be that of a purge; before, it is a number of something else, and after, never."""
_MOST_DAYS: Final = 3650
"""For which data can be kept; a higher number is no number of days."""


def sighting(word: str) -> Sighting:
    """The sighting for the provider's status *word*."""
    return SIGHTINGS.get(word.lower(), Sighting.MOVING)


def is_known(word: str) -> bool:
    """Whether *word* has a meaning of its own here."""
    return word.lower() in SIGHTINGS


def instance(seen: wire.Instance, *, detailed: bool) -> ProviderInstance | None:
    """One instance; None without an id. Connection details are read only if *detailed*: listings lack them."""
    found = values.identity(seen.id)
    if not found:
        return None
    word, failure = _label(seen.status), _failure(seen)
    is_stuck = failure is not None and word.lower() == "pulling"
    return ProviderInstance(
        id=found,
        name=_label(seen.name),
        sighting=sighting(word),
        provider_status=word,
        cluster_id=_label(seen.cluster_id) or None,
        cluster_name=_label(seen.cluster_name) or None,
        product_id=_label(seen.product_id) or None,
        product_name=_label(seen.product_name) or None,
        gpu_num=_gpus(seen),
        cpu_num=values.whole(seen.cpu_num),
        memory_gb=values.whole(seen.memory),
        rootfs_gb=values.whole(seen.rootfs_size),
        image=_label(seen.image_url) or None,
        billing_mode=_label(seen.billing_mode) or None,
        endpoints=_endpoints(seen),
        connection=_connection(seen) if detailed else None,
        failure=failure,
        spot_status=_label(seen.spot_status) or None,
        spot_reclaim_at=instant(seen.spot_reclaim_time),
        created_at=instant(seen.created_at),
        started_at=instant(seen.last_started_at),
        stopped_at=instant(seen.last_stopped_at),
        data_kept_until=_data_kept_until(seen),
        ends_at=instant(seen.end_time),
        env_names=tuple(key for env in values.many(seen.envs, wire.Env)[:MOST_PARTS] if (key := _label(env.key))),
        volume_mounts=tuple(
            path
            for mount in values.many(seen.volume_mounts, wire.VolumeMount)[:MOST_PARTS]
            if (path := _label(mount.mount_path))
        ),
        kind=_label(seen.kind) or None,
        boot=None if is_stuck else _BOOT_STAGES.get(word.lower()),
    )


def product(seen: wire.Product) -> Product | None:
    """One product; None without an id."""
    found = values.identity(seen.id)
    if not found:
        return None
    ways = set(values.texts(seen.billing_methods))
    return Product(
        id=found,
        name=_label(seen.name),
        cpu_per_gpu=values.whole(seen.cpu_per_gpu) or 0,
        memory_gb_per_gpu=values.whole(seen.memory_per_gpu) or 0,
        available=values.flag(seen.available_deploy),
        regions=tuple(values.texts(seen.regions)),
        spot_micro_usd=_price(seen.spot_price) if not ways or BillingMode.SPOT in ways else None,
        on_demand_micro_usd=_price(seen.price) if not ways or BillingMode.ON_DEMAND in ways else None,
    )


def cluster(seen: wire.Cluster) -> Cluster | None:
    """One cluster; None without an id. One without a name goes by its id."""
    found = values.identity(seen.id)
    return Cluster(id=found, name=_label(seen.name) or found) if found else None


def volume(seen: wire.Volume) -> Volume | None:
    """One network volume; None without an id or a cluster, because then no instance can mount it."""
    found, cluster_id = values.identity(seen.storage_id), values.identity(seen.cluster_id)
    if not found or not cluster_id:
        return None
    return Volume(
        id=found,
        name=_label(seen.storage_name),
        size_gb=values.whole(seen.storage_size) or 0,
        cluster_id=cluster_id,
        region=region_code(_label(seen.cluster_name)) or cluster_id,
    )


def instant(seconds: values.Scalar) -> datetime | None:
    """The instant of a unix time; None for "0" (never), "-1" (no end) and anything that is not a time."""
    found = values.number(seconds)
    if found is None or found <= 0:
        return None
    try:
        return datetime.fromtimestamp(found, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def moment(value: values.Scalar) -> datetime | None:
    """The instant in *value*, be it unix seconds or milliseconds, or ISO 8601 (UTC unless it says otherwise)."""
    seconds = values.number(value)
    if seconds is not None:
        return instant(seconds / 1000 if seconds >= _MILLISECONDS_FROM else seconds)
    try:
        found = datetime.fromisoformat(values.text(value))
        return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _data_kept_until(seen: wire.Instance) -> datetime | None:
    """
    When the data of a stopped instance is purged, as far as the provider says.

    `releaseDataAt` is undocumented. Without one that can be read, it is the last stop and the documented `keepDataDay`.
    """
    announced = moment(seen.release_data_at)
    if announced is not None and _PURGES[0] <= announced < _PURGES[1]:
        return announced
    stopped_at, days = instant(seen.last_stopped_at), values.whole(seen.keep_data_day)
    if stopped_at is None or days is None or not 0 < days <= _MOST_DAYS or not _PURGES[0] <= stopped_at < _PURGES[1]:
        return None
    return stopped_at + timedelta(days=days)


def _label(value: values.Scalar) -> str:
    return values.text(value)[:MOST_LABEL_LENGTH]


def _gpus(seen: wire.Instance) -> int | None:
    found = values.whole(seen.gpu_num)
    return found if found is not None and 0 <= found <= MOST_GPUS else None


def _price(units: values.Scalar) -> int | None:
    """Micro-USD; None for zero, which means not sold this way."""
    found = (values.number(units) or 0) * MICRO_USD_PER_PRICE_UNIT
    return round(found) or None if 0 < found <= MOST_MICRO_USD else None


def _endpoints(seen: wire.Instance) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(
            port=port,
            kind=_KINDS.get(values.text(mapping.type).lower(), PortKind.TCP),
            address=_label(mapping.endpoint) or None,
        )
        for mapping in values.many(seen.port_mappings, wire.PortMapping)[:MOST_PARTS]
        if (port := values.whole(mapping.port)) is not None
    )


def _connection(seen: wire.Instance) -> Connection:
    """What users copy into a shell or open in a browser; None for each that is not safe there."""
    ssh = values.one(seen.ssh, wire.ConnectComponent)
    jupyter = values.one(seen.jupyter, wire.ConnectComponent)
    terminal = values.one(seen.web_terminal, wire.ConnectComponent)
    target = ssh_target(_if_running(ssh, ssh.ssh_command) or "")
    return Connection(
        ssh_command=None if target is None else target.command,
        jupyter_address=web_address(_if_running(jupyter, jupyter.address)),
        web_terminal_address=web_address(_if_running(terminal, terminal.address)),
    )


def machine_access(seen: wire.Instance) -> MachineAccess:
    """Logins and log addresses; passwords as they are, because spaces may belong to them."""
    ssh = values.one(seen.ssh, wire.ConnectComponent)
    jupyter = values.one(seen.jupyter, wire.ConnectComponent)
    terminal = values.one(seen.web_terminal, wire.ConnectComponent)
    log = values.one(seen.log, wire.ConnectComponent)
    return MachineAccess(
        ssh_command=_if_running(ssh, ssh.ssh_command),
        ssh_password=_secret(ssh.password),
        web_terminal_address=_if_running(terminal, terminal.address),
        web_terminal_username=_secret(terminal.username),
        web_terminal_password=_secret(terminal.password),
        jupyter_address=_if_running(jupyter, jupyter.address),
        # Offered from the first state on, whatever `isRunning` says; an address that does not answer is an error.
        system_log_address=_label(log.system_log_address) or None,
        instance_log_address=_label(log.instance_log_address) or None,
    )


def _secret(value: values.Scalar) -> str | None:
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def _if_running(component: wire.ConnectComponent, value: values.Scalar) -> str | None:
    """The value unless the provider says that the component does not run."""
    shut = component.is_running is not None and not values.flag(component.is_running)
    return None if shut else _label(value) or None


def _failure(seen: wire.Instance) -> str | None:
    error = values.one(seen.status_error, wire.StatusError)
    parts = [part for part in (values.text(error.state), values.text(error.message)) if part]
    return ": ".join(parts)[:MOST_FAILURE_LENGTH] or None
