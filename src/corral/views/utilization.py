"""How busy machines are, as the API shows it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.machine.utilization import Period, Series, Utilization, newest
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


class MachineUtilization(msgspec.Struct, rename="camel"):
    """The newest measurements of one machine, in percent; null: unknown."""

    id: Annotated[str, Meta(description="Corral's id.")]
    name: str
    gpu: Annotated[float | None, Meta(description="The average use of its GPUs.")]
    gpu_memory: Annotated[float | None, Meta(description="The average use of their memory.")]
    cpu: Annotated[float | None, Meta(description="The use of its CPUs.")]
    memory: Annotated[float | None, Meta(description="The use of its memory.")]
    disk: Annotated[float | None, Meta(description="The use of its disk.")]
    sampled_at: Annotated[str | None, Meta(description="When the newest of them was measured.")]


class UtilizationDetails(msgspec.Struct, rename="camel"):
    """Every running machine, newest first."""

    instances: Annotated[list[MachineUtilization], Meta(description="The running machines.")]
    sampled_every: Annotated[
        int,
        Meta(description="Seconds between two reads of one machine; longer, the more machines share the rate limit."),
    ]


def machine_utilization(instance_id: str, name: str, found: Utilization | None) -> MachineUtilization:
    """The newest values of *found*."""
    found = found or Utilization()
    last = {part: newest(getattr(found, part)) for part in ("gpu", "gpu_memory", "cpu", "memory", "disk")}
    values = {part: None if sample is None else round(sample.value, 2) for part, sample in last.items()}
    sampled_at = max((sample.at for sample in last.values() if sample is not None), default=None)
    return MachineUtilization(id=instance_id, name=name, **values, sampled_at=iso(sampled_at))


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
