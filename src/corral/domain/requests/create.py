"""
What a request to create an instance may say: every rule of every field, and all that is wrong with one at once.

A number may be sent as a numeric string, a field sent as null counts as left out, and unknown fields are ignored.
Whether a webhook's address may be called is not decided here: that takes a look at the network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import cast

from corral.domain.errors import FieldProblem
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.instance import CreateRequest
from corral.domain.observation.adoption import Adoption
from corral.domain.placement.catalog import BillingMode
from corral.domain.placement.pricing import micro_usd
from corral.domain.placement.rank import PlacementRequest
from corral.domain.placement.regions import region_order
from corral.domain.requests.fields import (
    NO_OBJECT,
    FieldReader,
    InvalidFieldError,
    any_number,
    any_text,
    instance_name,
    one_line,
    whole_number,
    yes_or_no,
)
from corral.domain.requests.health_check import asked_health_check

LONGEST_PRODUCT_NAME = 200
LONGEST_TEMPLATE_ID = 100
LONGEST_REGION = 100
MOST_REGIONS = 50
MOST_GPUS = 8
ROOTFS_GB = (10, 1000)
MOST_USD = Decimal(10_000)
"""Per GPU-hour; far above any price, so that a price in the wrong unit is noticed."""


LONGEST_WAIT_SECONDS = 86_400
DURATION_PATTERN = r"^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$"
_DURATION = re.compile(r"(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,5})s)?", re.ASCII)
_WAIT_RULE = "must be seconds, or a text such as 2h, 30m or 1h30m, of at most 24 hours; 0 means not to wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDefaults:
    """What counts where a request says nothing."""

    region: str
    regions: tuple[str, ...]
    """The priority list, tried after the wished region."""
    health: HealthCheckSpec = field(default_factory=HealthCheckSpec)


def read_create_request(raw: object, defaults: CreateDefaults) -> CreateRequest | tuple[FieldProblem, ...]:
    """The order that *raw*, a decoded JSON body, places; or everything that is wrong with it."""
    if not isinstance(raw, dict):
        return (FieldProblem(field="(body)", code="VALIDATION_ERROR", message=NO_OBJECT, shows_value=False),)
    form = FieldReader(cast("Mapping[str, object]", raw))
    region = form.take("region", "INVALID_REGION", one_line(LONGEST_REGION), None)
    regions = form.take("regions", "INVALID_REGION", _regions, None)
    order = CreateRequest(
        name=form.need("name", "INVALID_INSTANCE_NAME", instance_name, ""),
        product_name=form.need("productName", "INVALID_PRODUCT_NAME", one_line(LONGEST_PRODUCT_NAME), ""),
        template_id=form.need("templateId", "INVALID_TEMPLATE_ID", _template_id, ""),
        gpu_num=form.take("gpuNum", "INVALID_GPU_NUM", whole_number(1, MOST_GPUS), 1),
        rootfs_gb=form.take("rootfsSize", "INVALID_ROOTFS_SIZE", whole_number(*ROOTFS_GB), 60),
        regions=_order_of_regions(region, regions, defaults),
        billing_mode=form.take("billingMode", "INVALID_BILLING_MODE", _billing_mode, BillingMode.SPOT),
        spot_fallback=form.take("spotFallback", "INVALID_BILLING_MODE", yes_or_no, False),
        max_micro_usd_per_gpu=form.take("maxPrice", "INVALID_MAX_PRICE", _price, None),
        wait_for_capacity_seconds=form.take("waitForCapacity", "INVALID_WAIT_FOR_CAPACITY", _wait, None),
        health=form.part(lambda: asked_health_check(form.raw, defaults.health), None) or defaults.health,
        webhook_url=form.take("webhookUrl", "INVALID_WEBHOOK_URL", any_text, None, shows_value=False),
    )
    return tuple(form.problems) or order


def read_adoption(raw: object, defaults: CreateDefaults) -> Adoption | tuple[FieldProblem, ...]:
    """What *raw*, a decoded JSON body, says with an adoption; or everything that is wrong with it."""
    if not isinstance(raw, dict):
        return (FieldProblem(field="(body)", code="VALIDATION_ERROR", message=NO_OBJECT, shows_value=False),)
    form = FieldReader(cast("Mapping[str, object]", raw))
    adoption = Adoption(
        name=form.take("name", "INVALID_INSTANCE_NAME", instance_name, None),
        health=form.part(lambda: asked_health_check(form.raw, defaults.health), None) or defaults.health,
        webhook_url=form.take("webhookUrl", "INVALID_WEBHOOK_URL", any_text, None, shows_value=False),
    )
    return tuple(form.problems) or adoption


def placement_request(order: CreateRequest) -> PlacementRequest:
    """What *order* asks of the catalog."""
    return PlacementRequest(
        product_name=order.product_name,
        regions=order.regions,
        billing_mode=order.billing_mode,
        spot_fallback=order.spot_fallback,
        max_micro_usd_per_gpu=order.max_micro_usd_per_gpu,
        gpu_num=order.gpu_num,
    )


def _price(value: object) -> int:
    number = any_number(value)
    if not 0 < number <= MOST_USD:
        raise InvalidFieldError(f"must be more than 0 and at most {MOST_USD} USD per GPU-hour")
    return micro_usd(number)


def _wait(value: object) -> int:
    """Seconds from a number of them, or from a text such as 2h, 90m or 1h30m."""
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
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value < 10**LONGEST_TEMPLATE_ID:
            raise InvalidFieldError("must be a positive integer or a string")
        return str(value)
    if not isinstance(value, str):
        raise InvalidFieldError("must be a positive integer or a string")
    return one_line(LONGEST_TEMPLATE_ID)(value)


def _regions(value: object) -> tuple[str, ...]:
    rule = f"must be a list of 1 to {MOST_REGIONS} region codes"
    if not isinstance(value, list):
        raise InvalidFieldError(rule)
    listed = cast("list[object]", value)
    if not 1 <= len(listed) <= MOST_REGIONS or not all(isinstance(code, str) for code in listed):
        raise InvalidFieldError(rule)
    return tuple(map(one_line(LONGEST_REGION), listed))


def _order_of_regions(wished: str | None, instead: tuple[str, ...] | None, defaults: CreateDefaults) -> tuple[str, ...]:
    """The wished region, then the list; who lists regions and wishes for none means those and not the default."""
    if instead is not None:
        return region_order(wished or (), instead)
    return region_order(wished or defaults.region, defaults.regions)


def _billing_mode(value: object) -> BillingMode:
    if not isinstance(value, str) or value not in set(BillingMode):
        raise InvalidFieldError(f"must be one of {', '.join(BillingMode)}")
    return BillingMode(value)
