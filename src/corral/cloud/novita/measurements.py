"""
The provider's answer about how busy a machine was, as `Utilization`. Total: what cannot be read is left out.

It says of the signals of idle rules that something was left out, because a machine may have been busy then.
Times are unix seconds as text by its documentation; milliseconds and ISO 8601 are read as well.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from corral.cloud.novita import values, wire
from corral.cloud.novita.translate import moment
from corral.domain.machine.utilization import (
    MOST_GPUS,
    GpuUtilization,
    Period,
    Reading,
    Series,
    Utilization,
    left_out,
    series,
    together,
)

MOST_RAW_SAMPLES: Final = 12_000
"""Of one series that are looked at: a day at the finest interval is half of it."""
_UNREADABLE: Final[Reading] = (None, None)


def utilization(seen: wire.Measurements, within: Period) -> Utilization:
    """What *seen* has of the period *within*."""
    gpu = values.one(seen.gpu_utilization, wire.GpuSeries)
    memory = values.one(seen.gpu_mem_utilization, wire.GpuSeries)
    memory_of, gpu_of = _by_gpu(memory), _by_gpu(gpu)
    numbers = list(islice(dict.fromkeys([*gpu_of, *memory_of]), MOST_GPUS))
    nothing = wire.NOTHING
    cpu, average = _readings(seen.cpu_utilization), _readings(gpu.avg)
    each_gpu = [_readings(gpu_of.get(number, nothing)) for number in numbers]
    unread = [_UNREADABLE] if len(gpu_of) > MOST_GPUS or _has_nameless(gpu) else []
    return Utilization(
        gpu=series(average, within),
        gpu_memory=_series(memory.avg, within),
        cpu=series(cpu, within),
        memory=_series(seen.mem_utilization, within),
        disk=_series(seen.root_disk_utilization, within),
        gpus=tuple(
            GpuUtilization(
                id=number,
                gpu=series(readings, within),
                gpu_memory=_series(memory_of.get(number, nothing), within),
            )
            for number, readings in zip(numbers, each_gpu, strict=True)
        ),
        gpu_left_out=together(left_out(readings, within) for readings in (average, *each_gpu, unread)),
        cpu_left_out=left_out(cpu, within),
    )


def _by_gpu(seen: wire.GpuSeries) -> dict[str, values.Part]:
    """The measurements of each GPU; none if its id is there twice, because one of them is another's."""
    found: dict[str, values.Part] = {}
    for one in values.many(seen.gpu_ids, wire.OneGpu):
        if number := values.identity(one.gpu_id):
            found[number] = wire.NOTHING if number in found else one.items
    return found


def _has_nameless(seen: wire.GpuSeries) -> bool:
    """Whether a GPU cannot be read or has no id: it is in no series, and may be the busy one."""
    return any(one is None or not values.identity(one.gpu_id) for one in values.each(seen.gpu_ids, wire.OneGpu))


def _series(part: values.Part, within: Period) -> Series:
    return series(_readings(part), within)


def _readings(part: values.Part) -> list[Reading]:
    """The newest entries of *part*; one without time and value stands for each that is unreadable, and for the rest."""
    found = values.each(part, wire.Measurement)
    readings = [
        _UNREADABLE if one is None else (moment(one.timestamp), values.number(one.value))
        for one in found[-MOST_RAW_SAMPLES:]
    ]
    return readings if len(found) <= MOST_RAW_SAMPLES else [_UNREADABLE, *readings]
