"""
Reading a create call: every documented rule of its fields, checked before anything happens.

The body is a client's and may be anything; what comes out is an `CreateRequest`. A breach is VALIDATOR_PARAM with the
field and the rule in the message. Whether the account or the catalog can serve the order is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from novitasim.api.refusal import RefusalError
from novitasim.settings import Settings
from novitasim.world.instance import Env, Mount, Order, Port

Body = Mapping[str, object]

_RESERVED_PORTS = frozenset({2222, 2223, 2224})
_LAST_PORT = 65_535
_MOST_GPUS = 8
_MOST_MONTHS = 12
_MIN_ROOTFS, _MAX_ROOTFS = 10, 6144
_MOST_ENVS, _MOST_MOUNTS = 100, 30
_KINDS = ("gpu", "cpu")
_MODES = ("onDemand", "monthly", "spot")
_TYPES = ("tcp", "http")
_PORT = re.compile(r"\s*(\d{1,5})/([a-z]+)\s*")
_STRICT_NAME = re.compile(r"[A-Za-z0-9-]*")


def invalid(message: str) -> RefusalError:
    """The refusal of a badly formed call."""
    return RefusalError("VALIDATOR_PARAM", message)


def text(body: Body, field: str, *, low: int = 0, high: int, default: str = "") -> str:
    """A text field, its length within bounds; absent and null mean *default*."""
    value = body.get(field)
    if value is None:
        value = default
    if not isinstance(value, str):
        raise invalid(f"invalid {field}: must be a string")
    if not low <= len(value) <= high:
        raise invalid(f"invalid {field}: length must be between {low} and {high}")
    return value


def whole(body: Body, field: str, *, low: int, high: int, default: int | None = None) -> int:
    """A whole number within bounds; a numeric string will do, as in protobuf's JSON."""
    value = body.get(field, default)
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(f"invalid {field}: must be an integer")
    if not low <= value <= high:
        raise invalid(f"invalid {field}: must be between {low} and {high}")
    return value


def objects(body: Body, field: str, most: int) -> list[Body]:
    """An array of objects, of limited length; absent and null mean none."""
    value = body.get(field)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise invalid(f"invalid {field}: must be an array of objects")
    if len(value) > most:
        raise invalid(f"invalid {field}: at most {most} entries")
    return value


def port(number: int, kind: str) -> Port:
    """A port that may be exposed."""
    if kind not in _TYPES:
        raise invalid(f"invalid port type {kind!r}: must be tcp or http")
    if not 1 <= number <= _LAST_PORT or number in _RESERVED_PORTS:
        raise invalid(f"invalid port {number}: must be 1-65535 and not 2222, 2223 or 2224")
    return Port(port=number, type=kind)


def ports_text(value: object) -> tuple[Port, ...]:
    """The `"80/http, 3306/tcp"` of create."""
    if value is None or value == "":
        return ()
    if not isinstance(value, str):
        raise invalid("invalid ports: must be a string such as 80/http, 3306/tcp")
    found: list[Port] = []
    for part in value.split(","):
        match = _PORT.fullmatch(part)
        if match is None:
            raise invalid(f"invalid ports: {part.strip()!r} is not PORT/TYPE")
        found.append(port(int(match[1]), match[2]))
    return tuple(found)


def envs(body: Body) -> tuple[Env, ...]:
    """The environment."""
    return tuple(
        Env(key=text(item, "key", high=511), value=text(item, "value", high=4095))
        for item in objects(body, "envs", _MOST_ENVS)
    )


def read(body: Body, settings: Settings) -> Order:
    """The order that a create body describes."""
    kind = text(body, "kind", low=1, high=255)
    if kind not in _KINDS:
        raise invalid("invalid kind: must be gpu or cpu")
    name = text(body, "name", high=255)
    if settings.strict_names and not _STRICT_NAME.fullmatch(name):
        raise invalid("invalid name: only letters, digits and hyphens")
    months = whole(body, "month", low=0, high=10_000, default=0)
    exposed, tools = ports_text(body.get("ports")), _tools(body)
    if len(exposed) + len(tools) > settings.ports_limit:
        raise invalid(f"invalid ports: at most {settings.ports_limit} ports and tools")
    if body.get("imageAuthId") and settings.image_auth_id == "refused":
        raise invalid("invalid imageAuthId: not supported")
    return Order(
        name=name,
        product_id=text(body, "productId", low=1, high=255),
        gpus=whole(body, "gpuNum", low=1, high=_MOST_GPUS) if kind == "gpu" else 0,
        rootfs_gb=_rootfs(body, kind),
        image=text(body, "imageUrl", low=1, high=500),
        kind=kind,
        image_auth=text(body, "imageAuth", high=10_239),
        image_auth_id=text(body, "imageAuthId", high=255),
        ports=exposed,
        envs=envs(body),
        tools=tools,
        command=text(body, "command", high=2047),
        entrypoint=text(body, "entrypoint", high=2047),
        cluster_id=text(body, "clusterId", high=255),
        mounts=_mounts(body),
        network_id=text(body, "networkId", high=255),
        months=months,
        billing_mode=_billing_mode(body, months),
        min_cuda=text(body, "minCudaVersion", high=63),
    )


def _rootfs(body: Body, kind: str) -> int:
    if kind == "cpu" and body.get("rootfsSize") is None:
        return _MIN_ROOTFS
    # Less than the minimum is documented to mean the minimum.
    return max(_MIN_ROOTFS, whole(body, "rootfsSize", low=0, high=_MAX_ROOTFS))


def _billing_mode(body: Body, months: int) -> str:
    mode = text(body, "billingMode", high=63) or "onDemand"
    if mode not in _MODES:
        raise invalid("invalid billingMode: must be onDemand, monthly or spot")
    if body.get("autoRenewMonth") is not None:
        whole(body, "autoRenewMonth", low=1, high=_MOST_MONTHS)
    return "monthly" if months > 0 else mode


def _tools(body: Body) -> tuple[tuple[str, Port], ...]:
    return tuple(
        (
            text(item, "name", low=1, high=255),
            port(whole(item, "port", low=1, high=_LAST_PORT), text(item, "type", high=63, default="http")),
        )
        for item in objects(body, "tools", _MOST_ENVS)
    )


def _mounts(body: Body) -> tuple[Mount, ...]:
    return tuple(
        Mount(id=text(item, "Id", low=1, high=255), path=text(item, "mountPoint", low=1, high=4095, default="/network"))
        for item in objects(body, "networkStorages", _MOST_MOUNTS)
    )
