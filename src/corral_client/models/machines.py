"""Responses about machines in use, typed: logins, the pull of the image, how busy they are, network storage."""

from __future__ import annotations

from datetime import datetime

import msgspec


class SshLogin(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How to log in by ssh; `command` is the provider's, without the password."""

    command: str
    user: str
    host: str
    port: int
    password: str | None = None

    def __repr__(self) -> str:
        return f"SshLogin(command={self.command!r}, password=…)"


class WebTerminal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A terminal in the browser."""

    address: str
    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"WebTerminal(address={self.address!r}, username={self.username!r}, password=…)"


class Jupyter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A notebook server; the address may contain its token."""

    address: str

    def __repr__(self) -> str:
        return "Jupyter(address=…)"


class Credentials(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every login that a machine offers; their text form has no password."""

    ssh: SshLogin | None = None
    web_terminal: WebTerminal | None = None
    jupyter: Jupyter | None = None


class ImagePull(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far the pull of an image is; `percent` is None until sizes are known, `line` the last line about it."""

    pulling: bool
    layers: int = 0
    layers_complete: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    percent: float | None = None
    line: str = ""


class Sample(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One measurement, in percent."""

    at: datetime
    value: float


class GpuMetrics(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The measurements of one GPU."""

    id: str | int
    gpu: list[Sample] = []
    gpu_memory: list[Sample] = []


class Metrics(msgspec.Struct, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """How busy a machine was from `since` to `until`, in percent; `gpus` has each GPU by itself."""

    instance_id: str = msgspec.field(name="instanceId")
    since: datetime
    until: datetime
    interval_seconds: float = msgspec.field(name="intervalSeconds")
    gpu: list[Sample] = []
    gpu_memory: list[Sample] = msgspec.field(name="gpuMemory", default_factory=list[Sample])
    cpu: list[Sample] = []
    memory: list[Sample] = []
    disk: list[Sample] = []
    gpus: list[GpuMetrics] = []


class MachineUse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How busy one machine is, in percent; None is unknown."""

    id: str
    name: str
    gpu: float | None = None
    gpu_memory: float | None = None
    cpu: float | None = None
    memory: float | None = None
    disk: float | None = None
    sampled_at: datetime | None = None


class Utilization(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The newest values of every running machine; each is renewed about every `sampled_every` seconds."""

    instances: list[MachineUse]
    sampled_every: float


class Volume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Network storage of the account: only machines of its cluster can mount it."""

    id: str
    name: str
    size_gb: float
    cluster_id: str
    region: str | None = None


class VolumeList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Network storage."""

    volumes: list[Volume]
