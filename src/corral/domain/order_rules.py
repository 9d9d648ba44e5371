"""
What a request to create an instance may say: every rule of every field, and all that is wrong with one at once.

A number may be sent as a numeric string, a field sent as null counts as left out, and unknown fields are ignored.
Whether a webhook's address may be called is not decided here: that takes a look at the network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar, cast

from corral.domain.adoption import Adoption
from corral.domain.catalog import BillingMode
from corral.domain.errors import FieldProblem
from corral.domain.health import SPEC_RANGES, HealthCheckSpec
from corral.domain.instance import Order
from corral.domain.money import micro_usd
from corral.domain.naming import region_order
from corral.domain.placement import Wish

LONGEST_NAME = 100
LONGEST_PRODUCT_NAME = 200
LONGEST_TEMPLATE_ID = 100
LONGEST_REGION = 100
MOST_REGIONS = 50
MOST_GPUS = 8
ROOTFS_GB = (10, 1000)
MOST_USD = Decimal(10_000)
"""Per GPU-hour; far above any price, so that a price in the wrong unit is noticed."""

_LONGEST_SHOWN = 200
"""Characters of a wrong value that are repeated to the caller."""
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}")
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_PATH = re.compile(r"/[!-\[\]-~]{0,999}")
_HEALTH_FIELDS = {
    "timeoutMs": "timeout_ms",
    "retryAttempts": "retry_attempts",
    "retryDelayMs": "retry_delay_ms",
    "maxWaitTimeMs": "max_wait_ms",
    "targetPort": "target_port",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDefaults:
    """What counts where a request says nothing."""

    region: str
    regions: tuple[str, ...]
    """The priority list, tried after the wished region."""
    health: HealthCheckSpec = field(default_factory=HealthCheckSpec)


def read_order(raw: object, defaults: OrderDefaults) -> Order | tuple[FieldProblem, ...]:
    """The order that *raw*, a decoded JSON body, places; or everything that is wrong with it."""
    if not isinstance(raw, dict):
        return (FieldProblem(field="(body)", code="VALIDATION_ERROR", message=_NO_OBJECT, shows_value=False),)
    form = _Form(cast("Mapping[str, object]", raw))
    region = form.take("region", "INVALID_REGION", _line(LONGEST_REGION), None)
    regions = form.take("regions", "INVALID_REGION", _regions, None)
    order = Order(
        name=form.need("name", "INVALID_INSTANCE_NAME", _name, ""),
        product_name=form.need("productName", "INVALID_PRODUCT_NAME", _line(LONGEST_PRODUCT_NAME), ""),
        template_id=form.need("templateId", "INVALID_TEMPLATE_ID", _template_id, ""),
        gpu_num=form.take("gpuNum", "INVALID_GPU_NUM", _whole(1, MOST_GPUS), 1),
        rootfs_gb=form.take("rootfsSize", "INVALID_ROOTFS_SIZE", _whole(*ROOTFS_GB), 60),
        regions=_order_of_regions(region, regions, defaults),
        billing_mode=form.take("billingMode", "INVALID_BILLING_MODE", _billing_mode, BillingMode.SPOT),
        spot_fallback=form.take("spotFallback", "INVALID_BILLING_MODE", _flag, False),
        max_micro_usd_per_gpu=form.take("maxPrice", "INVALID_MAX_PRICE", _price, None),
        health=form.part(lambda: read_health_check(form.raw.get("healthCheck"), defaults.health), defaults.health),
        webhook_url=form.take("webhookUrl", "INVALID_WEBHOOK_URL", _text, None, shows_value=False),
    )
    return tuple(form.problems) or order


def read_adoption(raw: object, defaults: OrderDefaults) -> Adoption | tuple[FieldProblem, ...]:
    """What *raw*, a decoded JSON body, says with an adoption; or everything that is wrong with it."""
    if not isinstance(raw, dict):
        return (FieldProblem(field="(body)", code="VALIDATION_ERROR", message=_NO_OBJECT, shows_value=False),)
    form = _Form(cast("Mapping[str, object]", raw))
    adoption = Adoption(
        name=form.take("name", "INVALID_INSTANCE_NAME", _name, None),
        health=form.part(lambda: read_health_check(form.raw.get("healthCheck"), defaults.health), defaults.health),
        webhook_url=form.take("webhookUrl", "INVALID_WEBHOOK_URL", _text, None, shows_value=False),
    )
    return tuple(form.problems) or adoption


def read_health_check(
    raw: object, defaults: HealthCheckSpec, *, name: str = "healthCheck"
) -> HealthCheckSpec | tuple[FieldProblem, ...]:
    """How an instance is to be checked, where *raw* is what the request says of it under *name*."""
    code = "INVALID_HEALTH_CHECK"
    if raw is None:
        return defaults
    if not isinstance(raw, dict):
        return (FieldProblem(field=name, code=code, message=_NO_OBJECT, shows_value=False),)
    form = _Form(cast("Mapping[str, object]", raw), prefix=f"{name}.")
    numbers: dict[str, Any] = {
        attribute: form.take(word, code, _whole(*SPEC_RANGES[attribute]), getattr(defaults, attribute))
        for word, attribute in _HEALTH_FIELDS.items()
    }
    spec = HealthCheckSpec(**numbers, path=form.take("path", code, _path, defaults.path, shows_value=False))
    return tuple(form.problems) or spec


def wish_of(order: Order) -> Wish:
    """What *order* asks of the catalogue."""
    return Wish(
        product_name=order.product_name,
        regions=order.regions,
        billing_mode=order.billing_mode,
        spot_fallback=order.spot_fallback,
        max_micro_usd_per_gpu=order.max_micro_usd_per_gpu,
        gpu_num=order.gpu_num,
    )


_NO_OBJECT = "must be a JSON object"


class _WrongError(ValueError):
    """A value breaks the rule of its field; the message says the rule."""


class _Form:
    """Fields that are read one by one; what is wrong with them is noted and reading goes on."""

    def __init__(self, raw: Mapping[str, object], prefix: str = "") -> None:
        self.raw = raw
        self.problems: list[FieldProblem] = []
        self._prefix = prefix

    def need(self, name: str, code: str, read: Callable[[object], T], placeholder: T) -> T:
        """A field that must be there."""
        if self.raw.get(name) is None:
            self._note(name, code, "is required", shows_value=False)
        return self.take(name, code, read, placeholder)

    def take(self, name: str, code: str, read: Callable[[object], T], default: T, *, shows_value: bool = True) -> T:
        """A field that may be left out."""
        value = self.raw.get(name)
        if value is None:
            return default
        try:
            return read(value)
        except _WrongError as error:
            self._note(name, code, str(error), value, shows_value=shows_value and _is_showable(value))
            return default

    def part(self, read: Callable[[], T | tuple[FieldProblem, ...]], default: T) -> T:
        """A field with fields of its own."""
        found = read()
        if not isinstance(found, tuple):
            return found
        self.problems.extend(found)
        return default

    def _note(self, name: str, code: str, message: str, value: object = None, *, shows_value: bool) -> None:
        shown = value if shows_value else None
        problem = FieldProblem(
            field=self._prefix + name, code=code, message=message, value=shown, shows_value=shows_value
        )
        self.problems.append(problem)


def _is_showable(value: object) -> bool:
    """Whether repeating *value* is cheap and tells no more than the field itself."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_SHOWN
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= 2**53)


def _number(value: object) -> Decimal:
    """The number *value* is or writes; true and false are none."""
    match value:
        case bool():
            pass
        case int():
            return Decimal(value)
        case float() if math.isfinite(value):
            return Decimal(repr(value))
        case str() if _NUMBER.fullmatch(value.strip()):
            return Decimal(value.strip())
        case _:
            pass
    raise _WrongError("must be a number")


def _whole(least: int, most: int) -> Callable[[object], int]:
    rule = f"must be a whole number between {least} and {most}"

    def read(value: object) -> int:
        try:
            number = _number(value)
        except _WrongError:
            raise _WrongError(rule) from None
        # The range first: a number beyond it may be too long to be worth making whole.
        if not least <= number <= most or number != number.to_integral_value():
            raise _WrongError(rule)
        return int(number)

    return read


def _price(value: object) -> int:
    number = _number(value)
    if not 0 < number <= MOST_USD:
        raise _WrongError(f"must be more than 0 and at most {MOST_USD} USD per GPU-hour")
    return micro_usd(number)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _WrongError("must be a string")
    return value


def _line(longest: int) -> Callable[[object], str]:
    """Printable characters only: others cannot be stored, or hide what a text says."""

    def read(value: object) -> str:
        text = _text(value).strip()
        if not 1 <= len(text) <= longest or not text.isprintable():
            raise _WrongError(f"must have 1 to {longest} printable characters")
        return text

    return read


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _WrongError(f"must have 1 to {LONGEST_NAME} characters out of A-Z, a-z, 0-9, _ and -")
    return value


def _template_id(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value < 10**LONGEST_TEMPLATE_ID:
            raise _WrongError("must be a positive integer or a string")
        return str(value)
    if not isinstance(value, str):
        raise _WrongError("must be a positive integer or a string")
    return _line(LONGEST_TEMPLATE_ID)(value)


def _regions(value: object) -> tuple[str, ...]:
    rule = f"must be a list of 1 to {MOST_REGIONS} region codes"
    if not isinstance(value, list):
        raise _WrongError(rule)
    listed = cast("list[object]", value)
    if not 1 <= len(listed) <= MOST_REGIONS or not all(isinstance(code, str) for code in listed):
        raise _WrongError(rule)
    return tuple(map(_line(LONGEST_REGION), listed))


def _order_of_regions(wished: str | None, instead: tuple[str, ...] | None, defaults: OrderDefaults) -> tuple[str, ...]:
    """The wished region, then the list; who lists regions and wishes for none means those and not the default."""
    if instead is not None:
        return region_order(wished or (), instead)
    return region_order(wished or defaults.region, defaults.regions)


def _billing_mode(value: object) -> BillingMode:
    if not isinstance(value, str) or value not in set(BillingMode):
        raise _WrongError(f"must be one of {', '.join(BillingMode)}")
    return BillingMode(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _WrongError("must be true or false")
    return value


def _path(value: object) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        raise _WrongError("must begin with / and have at most 1000 characters, without spaces or backslashes")
    return value
