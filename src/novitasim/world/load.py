"""
How busy instances are, in percent: what a control call set, else a load that follows from the instance's id.

A load counts from the instant it was set on, so that older samples do not change. So does what is wrong with the
samples, although the instance works (`SamplesStep`). Pure.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from novitasim.world.instance import Instance

GPU, GPU_MEMORY, CPU, MEMORY, DISK = "gpu", "gpuMemory", "cpu", "memory", "disk"
SERIES = (GPU, GPU_MEMORY, CPU, MEMORY, DISK)
PER_GPU = frozenset({GPU, GPU_MEMORY})

# (lowest base, highest base, height of the wave) of a load that was not set.
_USUAL = {GPU: (35, 80, 15), GPU_MEMORY: (40, 85, 2), CPU: (15, 50, 8), MEMORY: (20, 60, 3), DISK: (10, 40, 0)}
_WAVE_SECONDS = 600.0

FAULT_MEANING = {
    "normal": "as the instance works",
    "none": "there are none",
    "zeros": "every measure is exactly 0",
    "stale": "there are only those from before",
    "repeated": "each is the last one from before, under its old time, also if that is outside the asked period",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStep:
    """From *at* on, a series has these values (one for each GPU, or one for all); none means no samples."""

    at: float
    series: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesStep:
    """From *at* on, the samples are so: a key of `FAULT_MEANING`."""

    at: float
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadHistory:
    """Every load that was set for one instance, and how its samples are; `id` is the instance's."""

    id: str
    steps: tuple[LoadStep, ...] = ()
    samples: tuple[SamplesStep, ...] = ()

    def values(self, series: str, at: float) -> tuple[float, ...] | None:
        """The values in force at an instant; None if none was set by then."""
        return next((s.values for s in reversed(self.steps) if s.series == series and s.at <= at), None)

    def sampling(self, at: float) -> SamplesStep | None:
        """How samples are taken at an instant; None if nothing was set by then."""
        return next((step for step in reversed(self.samples) if step.at <= at), None)


def value(
    instance: Instance, history: LoadHistory | None, series: str, *, gpu: int, at: float, usual: str
) -> float | None:
    """The percentage of a series at an instant, of one GPU if it has several; None for no sample."""
    values = history.values(series, at) if history else None
    if values is not None:
        return values[min(gpu, len(values) - 1)] if values else None
    if usual != "varying":
        return float(usual)
    low, high, wave = _USUAL[series]
    seed = hashlib.blake2b(f"{instance.id}/{series}/{gpu}".encode(), digest_size=2).digest()
    turn = math.tau * (at / _WAVE_SECONDS + seed[1] / 256)
    return round(low + (high - low) * seed[0] / 255 + wave * math.sin(turn), 2)
