"""What can be asked of the service, as keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NotRequired, TypedDict

BillingMode = Literal["spot", "onDemand"]
LogSource = Literal["system", "instance"]

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
    gpu_num: NotRequired[int]
    rootfs_size: NotRequired[int]
    region: NotRequired[str]
    regions: NotRequired[list[str]]
    billing_mode: NotRequired[BillingMode]
    spot_fallback: NotRequired[bool]
    max_price: NotRequired[float]
    wait_for_capacity: NotRequired[str | int]
    webhook_url: NotRequired[str]
    health_check: NotRequired[HealthCheckOrder]


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


def body_of(order: Order) -> dict[str, object]:
    """The request body of *order*."""
    fields: dict[str, object] = {**order}
    own = {name: fields.pop(name) for name in _NAMED_BY_USERS if fields.get(name) is not None}
    return camel(fields) | own


def camel(order: Mapping[str, object]) -> dict[str, object]:
    """*order* with the names of the wire; what is None is left out."""
    named: dict[str, object] = {}
    for name, value in order.items():
        head, *tail = name.split("_")
        if value is not None:
            key = head + "".join(word.capitalize() for word in tail)
            named[key] = camel(value) if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownArgumentType]
    return named
