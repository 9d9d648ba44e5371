"""What can be asked of the service, as keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NotRequired, TypedDict

BillingMode = Literal["spot", "onDemand"]
LogSource = Literal["system", "instance"]
WebhookFormat = Literal["standard", "slack", "discord"]
EndAction = Literal["stop", "delete"]
Signal = Literal["gpu", "cpu", "lastUsed"]

_NAMED_BY_USERS: Final = ("env", "secrets", "labels")
"""Fields of an order whose keys are the user's own, and stay as they are."""


class Order(TypedDict):
    """What can be asked of a new instance; a template, an image or both say what runs."""

    name: str
    product_name: str
    template_id: NotRequired[str | int]
    image: NotRequired[str]
    image_auth_id: NotRequired[str]
    command: NotRequired[str]
    entrypoint: NotRequired[str]
    env: NotRequired[Mapping[str, str]]
    secrets: NotRequired[Mapping[str, str]]
    """Variables that are never shown again."""
    ports: NotRequired[Sequence[str]]
    volumes: NotRequired[Sequence[VolumeOrder]]
    min_cuda: NotRequired[str]
    labels: NotRequired[Mapping[str, str]]
    protected: NotRequired[bool]
    """Whether a budget that is spent leaves it running."""
    gpu_num: NotRequired[int]
    rootfs_size: NotRequired[int]
    region: NotRequired[str]
    regions: NotRequired[list[str]]
    billing_mode: NotRequired[BillingMode]
    spot_fallback: NotRequired[bool]
    max_price: NotRequired[float]
    wait_for_capacity: NotRequired[str | int]
    webhook_url: NotRequired[str]
    webhook_format: NotRequired[WebhookFormat]
    health_check: NotRequired[HealthCheckOrder]
    lease: NotRequired[LeaseOrder | None]
    """None for no lease, also where the service has defaults."""


class LeaseOrder(TypedDict, total=False):
    """
    What ends an instance; durations are text such as 30m, 8h or 1d12h.

    What is left out has the service's default, or stays as it was; None removes it.
    """

    max_duration: str | None
    idle: IdleOrder | None
    schedule: ScheduleOrder | None
    on_end: EndAction
    grace: str


class IdleOrder(TypedDict, total=False):
    """When an instance counts as idle: each of the signals is below its limit, in percent, for so long."""

    after: str
    gpu_below: float
    cpu_below: float
    signals: Sequence[Signal]


class ScheduleOrder(TypedDict, total=False):
    """When an instance is stopped and started: cron expressions of five fields in a time zone, UTC by default."""

    stop: str | None
    start: str | None
    timezone: str


class VolumeOrder(TypedDict):
    """Network storage to mount, by its id, at an absolute path."""

    id: str
    mount: str


class HealthCheckOrder(TypedDict, total=False):
    """How a running instance is to be checked before it is called ready; the service's settings give the rest."""

    timeout_ms: int
    retry_attempts: int
    retry_delay_ms: int
    max_wait_time_ms: int
    target_port: int
    path: str


class StartTerms(TypedDict, total=False):
    """What can be said with a start or restart; without it, what the create said holds."""

    health_check_config: HealthCheckOrder
    target_port: int
    webhook_url: str
    webhook_format: WebhookFormat


def body_of(order: Order) -> dict[str, object]:
    """The request body of *order*."""
    fields: dict[str, object] = {**order}
    own = {name: fields.pop(name) for name in _NAMED_BY_USERS if fields.get(name) is not None}
    lease = {"lease": lease_body(order["lease"])} if "lease" in order else {}
    return camel(fields) | own | lease


def lease_body(lease: LeaseOrder | None) -> dict[str, object] | None:
    """*lease* with the names of the wire; what is None stays, because it removes a part."""
    return None if lease is None else camel(lease, keeps_none=True)


def camel(order: Mapping[str, object], *, keeps_none: bool = False) -> dict[str, object]:
    """*order* with the names of the wire; what is None is left out, unless *keeps_none*."""
    named: dict[str, object] = {}
    for name, value in order.items():
        head, *tail = name.split("_")
        if value is not None or keeps_none:
            key = head + "".join(word.capitalize() for word in tail)
            if isinstance(value, Mapping):
                value = camel(value, keeps_none=keeps_none)  # noqa: PLW2901  # pyright: ignore[reportUnknownArgumentType]
            named[key] = value
    return named
