"""
Whether the provider bills a machine, as far as observations show it. Pure.

The GPUs are billed from *pulling* on until the machine is stopped, a disk above the free part from then on until the
machine is removed. A status that says neither leaves things as they were: it proves nothing, except that a machine
which was billed and has not stopped since still is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from corral.domain.observation.sighting import BootStage, ProviderInstance, Sighting

FREE_DISK_GB: Final = 60
"""GB of a machine's disk that cost nothing."""
MOST_DISK_GB: Final = 100_000
"""A larger number that the provider gives is no size of a disk."""
CLOCK_SET_BACK: Final = timedelta(minutes=1)
"""A time further ahead than this of an observation was taken before the clock was set back. Shorter, and an observation
that began before a start was sent ends its usage; longer, and observations are ignored for that long."""


class MeterState(StrEnum):
    """Whether something of a machine is billed."""

    EXPECTED = "expected"
    """It was not, when that was last known, and may be by now."""
    BILLED = "billed"
    UNBILLED = "unbilled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """Whether the GPUs, or the disk, of a machine are billed, and since when that is known."""

    state: MeterState
    at: datetime
    """When the last observation that showed it began; of an expected one, until when it was certainly not billed."""
    is_listed: bool
    """Whether every listing that shows the machine unchanged shows this, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """What is known of the billing of one machine."""

    gpu: Gauge
    disk: Gauge
    disk_gb: int | None = None
    """As the provider last said; None: it never did."""
    stopped_at: datetime | None = None
    """When it last stopped, by the provider's clock."""


def expected(since: datetime) -> Meter:
    """The meter of a machine that a call sent at *since* made, and that was not seen yet."""
    unseen = Gauge(state=MeterState.EXPECTED, at=since, is_listed=False)
    return Meter(gpu=unseen, disk=unseen)


def starting(meter: Meter | None, sent_at: datetime) -> Meter | None:
    """The meter after a start was sent to a stopped machine."""
    if meter is None or meter.gpu.state is not MeterState.UNBILLED:
        return meter
    gpu = Gauge(state=MeterState.EXPECTED, at=max(sent_at, meter.gpu.at), is_listed=False)
    return Meter(gpu=gpu, disk=meter.disk, disk_gb=meter.disk_gb, stopped_at=meter.stopped_at)


def gone(meter: Meter | None, at: datetime) -> Meter:
    """The meter after an observation that began at *at* confirmed that the machine is gone."""
    off = Gauge(state=MeterState.UNBILLED, at=at, is_listed=False)
    return Meter(
        gpu=off,
        disk=off,
        disk_gb=None if meter is None else meter.disk_gb,
        stopped_at=None if meter is None else meter.stopped_at,
    )


def read(last: Meter | None, seen: ProviderInstance, at: datetime) -> Meter:
    """The meter after *seen* was observed from *at* on; *last* is None for a machine that has none yet."""
    if seen.sighting is Sighting.ABSENT:
        return gone(last, at)
    return Meter(
        gpu=_gpu(last, seen, at),
        disk=_disk(last, seen, at),
        disk_gb=disk_size(seen) or (None if last is None else last.disk_gb),
        stopped_at=seen.stopped_at or (None if last is None else last.stopped_at),
    )


def may_be_billed(seen: ProviderInstance) -> bool:
    """Whether the GPUs of a machine of which nothing else is known may be billed."""
    return _billed(seen) is not False


def agrees(meter: Meter | None, seen: ProviderInstance) -> bool:
    """Whether observing *seen* leaves *meter* as it is, but for its times."""
    if meter is None:
        return False
    return _shape(read(meter, seen, max(meter.gpu.at, meter.disk.at))) == _shape(meter)


def disk_size(seen: ProviderInstance) -> int | None:
    """GB of its disk; None if the provider gives none that can be."""
    size = seen.rootfs_gb
    return size if size is not None and 0 < size <= MOST_DISK_GB else None


def _shape(meter: Meter) -> tuple[object, ...]:
    gpu, disk = meter.gpu, meter.disk
    return gpu.state, gpu.is_listed, disk.state, disk.is_listed, meter.disk_gb, meter.stopped_at


def _gpu(last: Meter | None, seen: ProviderInstance, at: datetime) -> Gauge:
    was = None if last is None else last.gpu
    if was is not None and at < was.at < at + CLOCK_SET_BACK:
        return was  # the observation began before what the gauge shows, such as a start that was sent
    match _billed(seen):
        case True:
            return Gauge(state=MeterState.BILLED, at=at, is_listed=True)
        case False:
            is_down = seen.sighting is Sighting.EXITED
            state = MeterState.UNBILLED if is_down else MeterState.EXPECTED
            return Gauge(state=state, at=at, is_listed=True)
        case None:
            return _unclear_gpu(last, seen, at)


def _unclear_gpu(last: Meter | None, seen: ProviderInstance, at: datetime) -> Gauge:
    """After a status in which the GPUs of a machine may be billed or not."""
    if last is None:
        return Gauge(state=MeterState.EXPECTED, at=at, is_listed=False)
    was = last.gpu
    # The provider's times are whole seconds, so a start may have that of the stop before it.
    is_same_stop = was.is_listed and seen.stopped_at is not None and seen.stopped_at == last.stopped_at
    if was.state is MeterState.BILLED and (is_same_stop or _is_up(seen)):
        return Gauge(state=MeterState.BILLED, at=at, is_listed=True)
    is_going = seen.sighting is Sighting.REMOVING
    may_begin = was.state is MeterState.UNBILLED and not is_going
    return Gauge(state=MeterState.EXPECTED if may_begin else was.state, at=was.at, is_listed=False)


def _disk(last: Meter | None, seen: ProviderInstance, at: datetime) -> Gauge:
    was, billed = None if last is None else last.disk, _billed(seen)
    # One that was taken for gone and is seen again may have had no disk before, either.
    is_new = was is None or was.state is not MeterState.BILLED
    if is_new and seen.boot is BootStage.NEW:
        return Gauge(state=MeterState.EXPECTED, at=at, is_listed=True)
    if is_new and not billed and seen.started_at is None:
        # It may have failed before it had a disk, also if it is started again.
        return Gauge(state=MeterState.EXPECTED, at=at if was is None else was.at, is_listed=False)
    return Gauge(state=MeterState.BILLED, at=at, is_listed=True)


def _billed(seen: ProviderInstance) -> bool | None:
    """Whether *seen* shows that the GPUs are billed; None: it does not say."""
    match seen.sighting:
        case Sighting.RUNNING | Sighting.RESTARTING | Sighting.MIGRATING:
            return True
        case Sighting.EXITED | Sighting.ABSENT:
            return False
        case Sighting.BOOTING:
            return None if seen.boot is None else seen.boot is BootStage.BILLED
        case Sighting.STOPPING | Sighting.REMOVING | Sighting.MOVING:
            return None


def _is_up(seen: ProviderInstance) -> bool:
    """Whether the provider's times show that the machine has not stopped since it last started."""
    if seen.stopped_at is None:
        return seen.created_at is not None or seen.started_at is not None
    return seen.started_at is not None and seen.stopped_at < seen.started_at
