"""
The provider's metrics call: how busy an instance was.

Documented: samples are about one minute late, without startTime only the last 60 seconds are shown (so a client that
omits it may get nothing), and bad parameters silently become defaults.
"""

from __future__ import annotations

from typing import NamedTuple

from novitasim.api.call import Call, Reply, Route, answer
from novitasim.api.wire import Json
from novitasim.settings import Settings
from novitasim.world import load
from novitasim.world.instance import Instance
from novitasim.world.timeline import Status

_MOST_SAMPLES = 11_000
_MIN_INTERVAL = 15
_PERCENT = 100.0


class _Point(NamedTuple):
    """One sample of every series; *is_zero* if each shows 0, whatever the instance does."""

    at: int
    is_zero: bool


def metrics(call: Call) -> Reply:
    """GET /openapi/v1/metrics/gpu/instance."""
    instance = call.world.find(call.query.get("instanceId") or call.query.get("instance_id", ""), call.now)
    points = _points(call, instance)
    gpus = range(instance.order.gpus)
    shown: dict[str, Json | list[Json]] = {
        "cpuUtilization": _samples(call, instance, load.CPU, points),
        "memUtilization": _samples(call, instance, load.MEMORY, points),
        "rootDiskUtilization": _samples(call, instance, load.DISK, points),
        "gpuUtilization": _per_gpu([_samples(call, instance, load.GPU, points, gpu) for gpu in gpus]),
        "gpuMemUtilization": _per_gpu([_samples(call, instance, load.GPU_MEMORY, points, gpu) for gpu in gpus]),
    }
    if call.world.settings.metrics_empty == "absent":
        shown = {name: series for name, series in shown.items() if series and series != _per_gpu([])}
    return answer(shown, instance_id=instance.id)


def _points(call: Call, instance: Instance) -> list[_Point]:
    """The samples of the asked period, as the fault in force at each instant leaves them."""
    found: list[_Point] = []
    for at in _instants(call, instance):
        sampling = _sampling(call, instance, at)
        if sampling.fault == "repeated":
            at = int(sampling.at)  # noqa: PLW2901  # the last sample from before the fault, again
        if sampling.fault not in {"none", "stale"} and _is_sampled(instance, at, call.world.settings):
            found.append(_Point(at, is_zero=sampling.fault == "zeros"))
    return found


def _sampling(call: Call, instance: Instance, at: int) -> load.SamplesStep:
    settings, history = call.world.settings, call.world.loads.get(instance.id)
    if history is not None and (step := history.sampling(at)) is not None:
        return step
    frozen_at = call.now - settings.metrics_stale_seconds
    is_early = settings.metrics_fault in {"stale", "repeated"} and at <= frozen_at
    return load.SamplesStep(at=frozen_at, fault="normal" if is_early else settings.metrics_fault)


def _instants(call: Call, instance: Instance) -> range:
    settings, now = call.world.settings, int(call.now)
    interval = max(_MIN_INTERVAL, _or(call.query.get("interval"), _MIN_INTERVAL))
    begin = _or(call.query.get("startTime"), now - int(settings.metrics_window_seconds))
    end = _or(call.query.get("endTime"), now)
    if begin > end:
        begin, end = now - int(settings.metrics_window_seconds), now
    first, last = max(begin, int(instance.created_at)), min(end, int(call.now - settings.metrics_late_seconds))
    return range(first, last + 1, interval)[:_MOST_SAMPLES]


def _is_sampled(instance: Instance, at: int, settings: Settings) -> bool:
    is_up = instance.status(at) is Status.RUNNING or settings.metrics_when_down == "zero"
    return is_up and hash((instance.seq, at)) % 1000 >= settings.metrics_gaps * 10


def _samples(call: Call, instance: Instance, series: str, points: list[_Point], gpu: int = 0) -> list[Json]:
    settings, history = call.world.settings, call.world.loads.get(instance.id)
    unit = 1.0 if settings.metrics_unit == "percent" else _PERCENT
    shown: list[Json] = []
    for at, is_zero in points:
        found = load.value(instance, history, series, gpu=gpu, at=at, usual=settings.load)
        if is_zero or instance.status(at) is not Status.RUNNING:
            found = 0.0
        if found is not None:
            shown.append({"timestamp": str(at), "value": found / unit})
    return shown


def _per_gpu(samples: list[list[Json]]) -> Json:
    """Each GPU's samples and their average; all GPUs have samples at the same instants."""
    together = zip(*samples, strict=True) if samples else ()
    average = [
        {"timestamp": at[0]["timestamp"], "value": round(sum(sample["value"] for sample in at) / len(at), 4)}
        for at in together
    ]
    items = [{"gpuId": number, "items": items} for number, items in enumerate(samples) if items]
    return {"avg": average, "gpuIds": items}


def _or(raw: str | None, default: int) -> int:
    return int(raw) if raw and raw.isdecimal() else default


ROUTES = (
    Route("metrics", "GET", "/gpu-instance/openapi/v1/instance/metrics", metrics),
    Route("metrics", "GET", "/openapi/v1/metrics/gpu/instance", metrics),
)
