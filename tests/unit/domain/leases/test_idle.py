"""Measurements of the provider as samples of idleness: the busiest GPU, false zeros, missing values; and the texts."""

from __future__ import annotations

from datetime import datetime

import pytest
from support.histories.leased import MINUTE, SECOND, T0, every, measured

from corral.domain.leases.idle import Activity, judge_idle
from corral.domain.leases.lease import IdleRule, Signal
from corral.domain.leases.samples import IdleSample, from_utilization
from corral.domain.machine.utilization import GpuUtilization, Period, Sample, Series, Utilization

WITHIN = Period(begin=T0, end=T0 + 5 * MINUTE, interval=15 * SECOND)


def series(*values: float | None, shift: int = 0) -> Series:
    """One measurement every 15 seconds; None is a gap."""
    times = [T0 + (15 * number + shift) * SECOND for number in range(len(values))]
    return tuple(Sample(at, value) for at, value in zip(times, values, strict=True) if value is not None)


def gpu(number: int, *values: float | None) -> GpuUtilization:
    return GpuUtilization(id=str(number), gpu=series(*values), gpu_memory=series(*(30.0 for _ in values)))


def read(seen: Utilization, gpus: int = 1) -> list[tuple[datetime, float | None, float | None]]:
    return [(sample.at, sample.gpu, sample.cpu) for sample in from_utilization(seen, WITHIN, gpus=gpus)]


def test_the_busiest_gpu_counts_and_not_the_average() -> None:
    seen = Utilization(gpu=series(4.0, 0.0), cpu=series(2.0, 3.0), gpus=(gpu(0, 32.0, 0.0), gpu(1, 0.0, 0.0)))

    assert read(seen) == [(T0, 32.0, 2.0), (T0 + 15 * SECOND, 0.0, 3.0)]


def test_without_values_of_each_gpu_the_gpu_is_unknown() -> None:
    """An average of 4 % over eight GPUs may be one at 32 %."""
    average = Utilization(gpu=series(4.0, 4.0), cpu=series(2.0, 2.0))
    one_missing = Utilization(cpu=series(2.0, 2.0), gpus=(gpu(0, 0.0, 0.0), gpu(1, None, 0.0)))

    assert read(average) == [(T0, None, 2.0)]
    assert read(one_missing) == [(T0, None, 2.0), (T0 + 15 * SECOND, 0.0, 2.0)]


def test_a_gpu_of_the_machine_that_is_not_listed_makes_the_gpu_unknown() -> None:
    """The busy one may be the one that is missing."""
    seen = Utilization(cpu=series(2.0, 2.0), memory=series(40.0, 40.0), gpus=(gpu(0, 0.0, 0.0), gpu(1, 0.0, 0.0)))

    assert read(seen, gpus=2) == [(T0, 0.0, 2.0), (T0 + 15 * SECOND, 0.0, 2.0)]
    assert read(seen, gpus=3) == [(T0, None, 2.0)]


def test_an_average_above_every_gpu_counts() -> None:
    """The values contradict each other: the higher one is believed."""
    seen = Utilization(gpu=series(99.0, 1.0), cpu=series(2.0, 2.0), gpus=(gpu(0, 0.0, 3.0),))

    assert read(seen) == [(T0, 99.0, 2.0), (T0 + 15 * SECOND, 3.0, 2.0)]


def test_a_measurement_in_shares_of_one_is_unknown() -> None:
    """0.97 may be 97 %: no measure is above 1."""
    busy = GpuUtilization(id="0", gpu=series(0.97, 0.97), gpu_memory=series(0.8, 80.0))
    seen = Utilization(cpu=series(0.4, 0.4), memory=series(1.0, 1.0), disk=series(0.05, 0.05), gpus=(busy,))

    assert read(seen) == [(T0, None, None), (T0 + 15 * SECOND, 0.97, 0.4)]


def test_a_measurement_without_any_memory_in_use_is_unknown() -> None:
    """A machine that runs uses some: the other values may be zeros for want of measurements, too."""
    idle = GpuUtilization(id="0", gpu=series(0.0, 0.0), gpu_memory=series(0.0, 0.0))
    seen = Utilization(cpu=series(2.0, 2.0), memory=series(0.0, 0.4), disk=series(30.0, 30.0), gpus=(idle,))

    assert read(seen) == [(T0, None, None), (T0 + 15 * SECOND, 0.0, 2.0)]


def test_a_measurement_with_nothing_but_zeros_is_unknown() -> None:
    """A machine that runs uses some memory and disk."""
    zeros = GpuUtilization(id="0", gpu=series(0.0, 0.0), gpu_memory=series(0.0, 0.0))
    seen = Utilization(cpu=series(0.0, 0.0), memory=series(0.0, 12.0), disk=series(0.0, 0.0), gpus=(zeros,))

    assert read(seen) == [(T0, None, None), (T0 + 15 * SECOND, 0.0, 0.0)]


def test_a_missing_value_is_unknown_except_in_the_newest_measurement() -> None:
    """Its other values may be published later; then it is read again."""
    seen = Utilization(cpu=series(2.0, None, 2.0), gpus=(gpu(0, 1.0, 1.0, 1.0, 1.0),))

    assert read(seen) == [(T0, 1.0, 2.0), (T0 + 15 * SECOND, 1.0, None), (T0 + 30 * SECOND, 1.0, 2.0)]


def test_values_of_one_interval_belong_together() -> None:
    """The provider may measure the CPU some seconds after the GPU."""
    seen = Utilization(cpu=series(2.0, 3.0, shift=7), gpus=(gpu(0, 1.0, 4.0),))

    assert read(seen) == [(T0 + 7 * SECOND, 1.0, 2.0), (T0 + 22 * SECOND, 4.0, 3.0)]


def test_nothing_measured_is_no_sample() -> None:
    assert read(Utilization()) == []


@pytest.mark.parametrize(
    ("signals", "gpu_value", "cpu_value", "reason"),
    [
        (frozenset(Signal), 0.4, 2.9, "GPU 0 %, CPU 2 % for 30 min"),
        (frozenset({Signal.GPU}), 4.99, 90.0, "GPU 4 % for 30 min"),
        (frozenset({Signal.LAST_USED}), 90.0, 90.0, "not used for 30 min"),
    ],
)
def test_an_idle_instance_is_described_by_its_highest_values(
    signals: frozenset[Signal], gpu_value: float, cpu_value: float, reason: str
) -> None:
    """Rounded down: 4.99 below a limit of 5 is not shown as 5."""
    rule, end = IdleRule(after=30 * MINUTE, signals=signals), T0 + 30 * MINUTE
    samples = [*measured(every(30 * SECOND, T0, end)), IdleSample(at=end, gpu=gpu_value, cpu=cpu_value)]

    found = judge_idle(rule, samples, now=end, ready_at=T0, last_used_at=None)

    assert (found.activity, found.reason) == (Activity.IDLE, reason)


def test_what_keeps_an_instance_running_is_said() -> None:
    rule, end = IdleRule(after=5 * MINUTE), T0 + 5 * MINUTE
    quiet = measured(every(15 * SECOND, T0, end))

    def reason(*more: IdleSample, ready_at: datetime = T0, used_at: datetime | None = None, lost: int = 0) -> str:
        samples = [*quiet[lost:], *more]
        return judge_idle(rule, samples, now=end, ready_at=ready_at, last_used_at=used_at).reason

    assert reason(IdleSample(at=end, gpu=97.2, cpu=1.0)) == "GPU 97 %"
    assert reason(IdleSample(at=end, gpu=1.0, cpu=None)) == "CPU unknown"
    assert reason(used_at=end - MINUTE) == "used within 5 min"
    assert reason(ready_at=T0 + SECOND) == "ready for less than 5 min"
    assert reason(lost=10) == "measured for less than 80% of 5 min"


def test_a_measurement_of_a_clock_that_is_ahead_counts_too() -> None:
    rule, now = IdleRule(after=5 * MINUTE), T0 + 5 * MINUTE
    ahead = IdleSample(at=now + MINUTE, gpu=50.0, cpu=1.0)

    found = judge_idle(rule, [*measured(every(15 * SECOND, T0, now)), ahead], now=now, ready_at=T0, last_used_at=None)

    assert found.activity is Activity.ACTIVE


def test_a_gap_does_not_count_as_measured() -> None:
    """Two samples at both ends of a gap of two of ten minutes and a bit."""
    rule, end = IdleRule(after=10 * MINUTE), T0 + 10 * MINUTE
    times = every(60 * SECOND, T0, end)

    def activity(*lost: int) -> Activity:
        samples = measured(at for number, at in enumerate(times) if number not in lost)
        return judge_idle(rule, samples, now=end, ready_at=T0, last_used_at=None).activity

    assert activity(4, 5) is Activity.IDLE
    assert activity(4, 5, 6) is Activity.UNKNOWN
    assert activity(1, 4, 7) is Activity.UNKNOWN


def test_the_quiet_time_begins_after_the_last_active_or_unknown_measurement() -> None:
    rule, now = IdleRule(after=5 * MINUTE), T0 + 5 * MINUTE
    samples = measured(every(15 * SECOND, T0, now))

    def quiet_since(samples: list[IdleSample], later: int = 0) -> datetime | None:
        return judge_idle(rule, samples, now=now + later * SECOND, ready_at=T0, last_used_at=None).quiet_since

    assert quiet_since(samples) == T0
    for gpu, cpu in ((5.0, 0.0), (0.0, 10.0), (None, 0.0), (0.0, None)):
        loud = IdleSample(at=samples[9].at, gpu=gpu, cpu=cpu)
        assert quiet_since([*samples[:9], loud, *samples[10:]]) == loud.at
        assert quiet_since([*samples[:-1], IdleSample(at=now, gpu=gpu, cpu=cpu)]) is None
    assert quiet_since(samples, later=120) == T0
    assert quiet_since(samples, later=121) is None
