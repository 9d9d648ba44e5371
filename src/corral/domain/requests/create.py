"""
The bodies of requests to create and to adopt an instance: their fields, and reading them with all problems at once.

Whether a webhook's address may be called is not checked here, because that needs a DNS lookup.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

from corral.domain.container import ContainerSpec
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.instance import CreateRequest, Labels
from corral.domain.leases.lease import Lease
from corral.domain.observation.adoption import Adoption
from corral.domain.placement.catalog import BillingMode, EnvironmentVariable, region_order
from corral.domain.placement.pricing import micro_usd
from corral.domain.placement.rank import PlacementRequest
from corral.domain.requests.container import CONTAINER_FIELDS, read_container
from corral.domain.requests.fields import (
    BOOLEAN,
    INSTANCE_NAME,
    URL,
    Field,
    Fields,
    InvalidFieldError,
    Problems,
    Rule,
    any_number,
    body_schema,
    one_line,
    problem,
    whole_number,
)
from corral.domain.requests.health_check import HEALTH_CHECK, read_with_health_check
from corral.domain.requests.labels import LABELS, PROTECTED
from corral.domain.requests.lease import LeaseDefaults, read_lease
from corral.domain.requests.lease_fields import LEASE
from corral.domain.requests.secrets import SECRETS, secret_problems
from corral.domain.requests.webhook import WEBHOOK_FORMAT, put_format

LONGEST_TEMPLATE_ID = 100
MOST_REGIONS = 50
MOST_USD = Decimal(10_000)
"""Per GPU-hour; far above any price, so that a price in the wrong unit is noticed."""
LONGEST_WAIT_SECONDS = 86_400

_DURATION = re.compile(r"(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,5})s)?", re.ASCII)
_DURATION_SCHEMA = {"type": "string", "pattern": "^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$", "minLength": 2}
_WAIT_RULE = "must be seconds, or a text such as 2h, 30m or 1h30m, of at most 24 hours; 0 means not to wait"
_TEMPLATE_TEXT = one_line(LONGEST_TEMPLATE_ID)
_REGION_CODE = one_line(100)


def _price(value: object) -> int:
    number = any_number(value)
    if not 0 < number <= MOST_USD:
        raise InvalidFieldError(f"must be more than 0 and at most {MOST_USD} USD per GPU-hour")
    return micro_usd(number)


def _wait(value: object) -> int:
    """Seconds, from a number or from a text such as 2h, 90m or 1h30m."""
    written = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if written is not None and any(written.groups()):
        hours, minutes, seconds = (int(part or 0) for part in written.groups())
        number = Decimal(hours * 3600 + minutes * 60 + seconds)
    else:
        try:
            number = any_number(value)
        except InvalidFieldError:
            raise InvalidFieldError(_WAIT_RULE) from None
    if not 0 <= number <= LONGEST_WAIT_SECONDS or number != number.to_integral_value():
        raise InvalidFieldError(_WAIT_RULE)
    return int(number)


def _template_id(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 10**LONGEST_TEMPLATE_ID:
        return str(value)
    if not isinstance(value, str):
        raise InvalidFieldError("must be a positive integer or a string")
    text: str = _TEMPLATE_TEXT.read(value)
    return text


def _regions(value: object) -> tuple[str, ...]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    if not 1 <= len(listed) <= MOST_REGIONS or not all(isinstance(code, str) for code in listed):
        raise InvalidFieldError(f"must be a list of 1 to {MOST_REGIONS} region codes")
    return tuple(map(_REGION_CODE.read, listed))


def _billing_mode(value: object) -> BillingMode:
    if not isinstance(value, str) or value not in set(BillingMode):
        raise InvalidFieldError(f"must be one of {', '.join(BillingMode)}")
    return BillingMode(value)


_WEBHOOK_URL = Field(
    "webhookUrl",
    "INVALID_WEBHOOK_URL",
    URL,
    "Receives the changes of this instance; http or https.",
    "https://hooks.example.com/corral",
    secret=True,
)
_CREATE_FIELDS: Fields = {
    "name": Field("name", "INVALID_INSTANCE_NAME", INSTANCE_NAME, "A name for people.", "trainer", required=True),
    "product_name": Field(
        "productName",
        "INVALID_PRODUCT_NAME",
        one_line(200),
        "The whole name, as in GET /api/products.",
        "RTX 4090 24GB",
        required=True,
    ),
    "template_id": Field(
        "templateId",
        "INVALID_TEMPLATE_ID",
        Rule(_template_id, {"oneOf": [_TEMPLATE_TEXT.schema, {"type": "integer", "minimum": 1}]}),
        "The provider's template to run; required without `image`.",
        "107672",
    ),
    "gpu_num": Field("gpuNum", "INVALID_GPU_NUM", whole_number(1, 8), "How many GPUs.", 1),
    "rootfs_gb": Field("rootfsSize", "INVALID_ROOTFS_SIZE", whole_number(10, 1000), "GB of disk.", 60),
    "region": Field("region", "INVALID_REGION", _REGION_CODE, "Tried first; DEFAULT_REGION when left out.", "CN-HK-01"),
    "regions": Field(
        "regions",
        "INVALID_REGION",
        Rule(_regions, {"type": "array", "items": _REGION_CODE.schema, "minItems": 1, "maxItems": MOST_REGIONS}),
        "Tried after `region` instead of the priority list; `[region]` alone means no fallback. "
        "Without `region` only these are tried, in this order: DEFAULT_REGION is not added.",
        ["CN-HK-01"],
    ),
    "billing_mode": Field(
        "billingMode",
        "INVALID_BILLING_MODE",
        Rule(_billing_mode, {"type": "string", "enum": list(BillingMode)}),
        "How it is paid for.",
        "spot",
    ),
    "spot_fallback": Field(
        "spotFallback", "INVALID_BILLING_MODE", BOOLEAN, "Whether on-demand is accepted when no region has spot.", False
    ),
    "max_micro_usd_per_gpu": Field(
        "maxPrice",
        "INVALID_MAX_PRICE",
        Rule(_price, {"type": "number", "exclusiveMinimum": 0, "maximum": float(MOST_USD)}),
        "Most USD per GPU-hour; more expensive products are not chosen.",
        0.5,
    ),
    "wait_for_capacity_seconds": Field(
        "waitForCapacity",
        "INVALID_WAIT_FOR_CAPACITY",
        Rule(_wait, {"oneOf": [whole_number(0, LONGEST_WAIT_SECONDS).schema, _DURATION_SCHEMA]}),
        "How long to wait while every offer is short: seconds, or a text such as 2h, 30m or 1h30m; at most 24 hours. "
        "0 fails at once; left out, it waits until the deadline of the create (20 minutes). With more than 0, a "
        "product that is sold out everywhere is accepted instead of refused with 404.",
        "2h",
    ),
    "secrets": SECRETS,
    "labels": LABELS,
    "protected": PROTECTED,
    "webhook_url": _WEBHOOK_URL,
    "webhook_format": WEBHOOK_FORMAT,
}
_ADOPT_FIELDS: Fields = {
    "name": Field("name", "INVALID_INSTANCE_NAME", INSTANCE_NAME, "Left out: the provider's name for it.", "trainer"),
    "webhook_url": _WEBHOOK_URL,
    "webhook_format": WEBHOOK_FORMAT,
}

CREATE_BODY = {
    **body_schema(
        "A number may be sent as a numeric string; unknown fields are ignored.",
        {**_CREATE_FIELDS, **CONTAINER_FIELDS},
        CreateRequest,
        healthCheck=HEALTH_CHECK,
        lease=LEASE,
    ),
    "anyOf": [{"required": ["templateId"]}, {"required": ["image"]}],
}
ADOPT_BODY = body_schema(
    "Every field may be left out; unknown fields are ignored.", _ADOPT_FIELDS, healthCheck=HEALTH_CHECK
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDefaults:
    """The settings that apply where a request leaves a field out."""

    region: str
    regions: tuple[str, ...]
    """The priority list, tried after the requested region."""
    health: HealthCheckSpec = field(default_factory=HealthCheckSpec)
    lease: LeaseDefaults = field(default_factory=LeaseDefaults)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedInstance:
    """What a create body asks for: the request, which never changes, and what is recorded beside it."""

    request: CreateRequest
    labels: Labels = ()
    secrets: tuple[EnvironmentVariable, ...] = ()
    """The values are stored encrypted, and nowhere else."""
    lease: Lease | None = None
    protected: bool = False


def read_create_request(raw: object, defaults: CreateDefaults) -> RequestedInstance | Problems:
    """The request in *raw*, a decoded JSON body; or every problem with it."""
    values, problems = read_with_health_check(raw, _CREATE_FIELDS, defaults.health)
    problems += put_format(raw, values)
    lease: Lease | None = None
    if isinstance(raw, dict):
        values["container"], wrong = _read_container(cast("dict[str, Any]", raw))
        problems += wrong
        lease, wrong = read_lease(cast("dict[str, Any]", raw), defaults.lease)
        problems += wrong
    secrets, container = values.pop("secrets", ()), values.get("container")
    if secrets:
        problems += secret_problems(secrets, () if container is None else container.env)
        values["secret_names"] = tuple(each.key for each in secrets)
    if problems:
        return problems
    values.setdefault("template_id", "")
    first, listed = values.pop("region", None), values.get("regions")
    values["regions"] = _order_of_regions(first, listed, defaults.region, defaults.regions)
    values.setdefault("health", defaults.health)
    labels, protected = values.pop("labels", ()), values.pop("protected", False)
    return RequestedInstance(
        request=CreateRequest(**values), labels=labels, secrets=secrets, lease=lease, protected=protected
    )


def _read_container(raw: dict[str, Any]) -> tuple[ContainerSpec | None, Problems]:
    """The container that *raw* describes, and every problem: also that neither template nor image is given."""
    container, problems = read_container(raw)
    if raw.get("templateId") is None and raw.get("image") is None:
        missing = problem("templateId", "INVALID_TEMPLATE_ID", "is required, unless image is given")
        return container, (*problems, missing)
    return container, problems


def read_adoption(raw: object, defaults: CreateDefaults) -> Adoption | Problems:
    """The adoption in *raw*, a decoded JSON body; or every problem with it."""
    values, problems = read_with_health_check(raw, _ADOPT_FIELDS, defaults.health)
    problems += put_format(raw, values)
    values.setdefault("health", defaults.health)
    return problems or Adoption(**values)


def placement_request(request: CreateRequest) -> PlacementRequest:
    """The part of *request* that the choice of an offer depends on."""
    return PlacementRequest(
        product_name=request.product_name,
        regions=request.regions,
        billing_mode=request.billing_mode,
        spot_fallback=request.spot_fallback,
        max_micro_usd_per_gpu=request.max_micro_usd_per_gpu,
        gpu_num=request.gpu_num,
    )


@lru_cache(maxsize=256)
def _order_of_regions(
    first: str | None, listed: tuple[str, ...] | None, default: str, priority: tuple[str, ...]
) -> tuple[str, ...]:
    """*first*, then *listed*; the default region is added only when the request lists none."""
    if listed is not None:
        return region_order(first or (), listed)
    return region_order(first or default, priority)
