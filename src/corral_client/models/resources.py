"""Responses about products, templates, jobs and the service's own health, typed."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Product(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One product; prices are USD per GPU-hour."""

    id: str
    name: str
    available: bool
    regions: list[str] = []
    cpu_per_gpu: int
    memory_per_gpu: int
    price_per_gpu: float | None = None
    spot_price_per_gpu: float | None = None
    on_demand_price_per_gpu: float | None = None


class ProductList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Products, cheapest first."""

    products: list[Product]


class OpenPort(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A port a template opens."""

    port: int
    type: str


class Tool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A helper service beside the container."""

    name: str
    port: int
    type: str


class Template(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What runs on the machine."""

    id: str
    name: str
    image: str
    image_auth_id: str | None = None
    ports: list[OpenPort] = []
    tools: list[Tool] = []
    env_names: list[str] = []
    start_command: str = ""
    entrypoint: str = ""
    min_cuda_version: str = ""


class ListedTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A template by its name; `channel` is `private` for the account's own, `official` for the provider's."""

    id: str
    name: str
    image: str = ""
    ports: list[OpenPort] = []
    channel: str = ""


class TemplateList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Templates to choose from."""

    templates: list[ListedTemplate]


class Job(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One background job."""

    id: str
    type: str
    status: str
    priority: str
    attempts: int
    max_attempts: int
    created_at: datetime
    processed_at: datetime | None = None
    completed_at: datetime | None = None
    next_retry_at: datetime | None = None
    error: str | None = None
    payload: dict[str, object] = {}


class JobPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of jobs."""

    jobs: list[Job]


class JobStats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The queue in numbers."""

    total_jobs: int
    pending_jobs: int
    processing_jobs: int
    completed_jobs: int
    failed_jobs: int
    jobs_by_type: dict[str, int] = {}
    oldest_pending_age_ms: int | None = None
    paused: bool = False
    """Whether no job begins until processing is resumed."""
    paused_at: datetime | None = None
    paused_by: str | None = None


class Processing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether jobs are processed."""

    paused: bool
    paused_at: datetime | None = None
    paused_by: str | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How every part of the service is; `uptime` is in seconds."""

    status: str
    timestamp: datetime
    uptime: float
    version: str
    services: dict[str, str] = {}
    dependencies: dict[str, object] = {}

    @property
    def is_healthy(self) -> bool:
        """Whether every part works."""
        return self.status == "healthy"
