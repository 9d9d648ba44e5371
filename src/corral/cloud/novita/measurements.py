"""
The provider's answer about how busy a machine was, as `Utilization`. Total: what cannot be read is left out.

Times are unix seconds as text by its documentation; milliseconds and ISO 8601 are read as well.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from corral.cloud.novita import values, wire
from corral.cloud.novita.translate import moment
from corral.domain.machine.utilization import MOST_GPUS, GpuUtilization, Period, Series, Utilization, series

MOST_RAW_SAMPLES: Final = 12_000
"""Of one series that are looked at: a day at the finest interval is half of it."""


def utilization(seen: wire.Measurements, within: Period) -> Utilization:
    """What *seen* has of the period *within*."""
    gpu = values.one(seen.gpu_utilization, wire.GpuSeries)
    memory = values.one(seen.gpu_mem_utilization, wire.GpuSeries)
    memory_of, gpu_of = _by_gpu(memory), _by_gpu(gpu)
    numbers = list(islice(dict.fromkeys([*gpu_of, *memory_of]), MOST_GPUS))
    nothing = wire.NOTHING
    return Utilization(
        gpu=_series(gpu.avg, within),
        gpu_memory=_series(memory.avg, within),
        cpu=_series(seen.cpu_utilization, within),
        memory=_series(seen.mem_utilization, within),
        disk=_series(seen.root_disk_utilization, within),
        gpus=tuple(
            GpuUtilization(
                id=number,
                gpu=_series(gpu_of.get(number, nothing), within),
                gpu_memory=_series(memory_of.get(number, nothing), within),
            )
            for number in numbers
        ),
    )


def _by_gpu(seen: wire.GpuSeries) -> dict[str, values.Part]:
    """The measurements of each GPU; none if its id is there twice, because one of them is another's."""
    found: dict[str, values.Part] = {}
    for one in values.many(seen.gpu_ids, wire.OneGpu):
        if number := values.identity(one.gpu_id):
            found[number] = wire.NOTHING if number in found else one.items
    return found


def _series(part: values.Part, within: Period) -> Series:
    samples = values.many(part, wire.Measurement)[-MOST_RAW_SAMPLES:]
    return series(((moment(one.timestamp), values.number(one.value)) for one in samples), within)
