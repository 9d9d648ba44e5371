"""How busy machines are, as the API shows it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.machine.utilization import Period, Series, Utilization
from corral.domain.timing import iso
from corral.views.schemas import Time


class SampleDetails(msgspec.Struct):
    """One measurement."""

    at: Time
    value: Annotated[float, Meta(description="Percent.", ge=0, le=100)]


class GpuMetrics(msgspec.Struct, rename="camel"):
    """The measurements of one GPU."""

    id: Annotated[str, Meta(description="The provider's number of the GPU.")]
    gpu: Annotated[list[SampleDetails], Meta(description="Its use.")]
    gpu_memory: Annotated[list[SampleDetails], Meta(description="The use of its memory.")]


class InstanceMetrics(
    msgspec.Struct,
    rename={
        "begin": "from",
        "end": "to",
        "gpu_memory": "gpuMemory",
        "instance_id": "instanceId",
        "interval_seconds": "intervalSeconds",
    },
):
    """How busy the machine of one instance was; where the provider has no measurement there is a gap."""

    instance_id: str
    begin: Annotated[str, Meta(description="Begin of the period.")]
    end: Annotated[str, Meta(description="End of the period; the provider is about a minute late.")]
    interval_seconds: Annotated[int, Meta(description="Between two measurements.")]
    gpu: Annotated[list[SampleDetails], Meta(description="The average use of its GPUs.")]
    gpu_memory: Annotated[list[SampleDetails], Meta(description="The average use of their memory.")]
    cpu: Annotated[list[SampleDetails], Meta(description="The use of its CPUs.")]
    memory: Annotated[list[SampleDetails], Meta(description="The use of its memory.")]
    disk: Annotated[list[SampleDetails], Meta(description="The use of its disk.")]
    gpus: Annotated[list[GpuMetrics], Meta(description="Each GPU.")]


def instance_metrics(instance_id: str, within: Period, found: Utilization) -> InstanceMetrics:
    """*found* as it is shown."""
    return InstanceMetrics(
        instance_id=instance_id,
        begin=iso(within.begin),
        end=iso(within.end),
        interval_seconds=int(within.interval.total_seconds()),
        gpu=_samples(found.gpu),
        gpu_memory=_samples(found.gpu_memory),
        cpu=_samples(found.cpu),
        memory=_samples(found.memory),
        disk=_samples(found.disk),
        gpus=[GpuMetrics(id=one.id, gpu=_samples(one.gpu), gpu_memory=_samples(one.gpu_memory)) for one in found.gpus],
    )


def _samples(measured: Series) -> list[SampleDetails]:
    return [SampleDetails(at=iso(sample.at), value=round(sample.value, 2)) for sample in measured]
