"""
What the OpenAPI document says of requests that the framework does not read for us.

The body of a create is read by `domain/requests/create.py`, so that all its errors are told at once; this describes the
same rules, from the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from litestar.openapi.spec import OpenAPIMediaType, OpenAPIType, Operation, Parameter, Reference, RequestBody, Schema

from corral.api.middleware.idempotency import HEADER
from corral.domain.health.checks import SPEC_RANGES, HealthCheckSpec
from corral.domain.placement.catalog import BillingMode
from corral.domain.requests import create as rules
from corral.domain.requests.action import LONGEST_PROVIDER_NAME
from corral.domain.requests.fields import LONGEST_NAME


def _whole(least: int, most: int, description: str, default: int | None = None) -> Schema:
    return Schema(type=OpenAPIType.INTEGER, minimum=least, maximum=most, description=description, default=default)


def _text(longest: int, description: str, **more: Any) -> Schema:
    return Schema(type=OpenAPIType.STRING, min_length=1, max_length=longest, description=description, **more)


HEALTH_CHECK: Final = Schema(
    type=OpenAPIType.OBJECT,
    description="How a running instance is checked before it is called ready; settings give what is left out. In every "
    "request the field may be called `healthCheck` or `healthCheckConfig`, but not both at once.",
    properties={
        "timeoutMs": _whole(*SPEC_RANGES["timeout_ms"], "Milliseconds one check may take."),
        "retryAttempts": _whole(*SPEC_RANGES["retry_attempts"], "Repetitions within a round."),
        "retryDelayMs": _whole(*SPEC_RANGES["retry_delay_ms"], "Milliseconds before the first; doubles with each."),
        "maxWaitTimeMs": _whole(*SPEC_RANGES["max_wait_ms"], "Milliseconds until it is called unhealthy."),
        "targetPort": _whole(*SPEC_RANGES["target_port"], "Check this port alone."),
        "path": _text(1000, "Path of the GET.", default=HealthCheckSpec().path, pattern="^/"),
    },
)

NAME: Final = _text(LONGEST_NAME, "A name for people.", pattern="^[A-Za-z0-9_-]+$")
WEBHOOK_URL: Final = _text(2048, "Where changes of this instance are told; http or https.")

ORDER: Final = Schema(
    type=OpenAPIType.OBJECT,
    description="A number may be sent as a numeric string; unknown fields are ignored.",
    required=["name", "productName", "templateId"],
    properties={
        "name": NAME,
        "productName": _text(rules.LONGEST_PRODUCT_NAME, "The whole name, as in GET /api/products."),
        "templateId": Schema(
            one_of=[
                _text(rules.LONGEST_TEMPLATE_ID, "As the provider writes it."),
                Schema(type=OpenAPIType.INTEGER, minimum=1),
            ],
            description="The provider's template to run.",
        ),
        "gpuNum": _whole(1, rules.MOST_GPUS, "How many GPUs.", 1),
        "rootfsSize": _whole(*rules.ROOTFS_GB, "GB of disk.", 60),
        "region": _text(rules.LONGEST_REGION, "Tried first; DEFAULT_REGION when left out."),
        "regions": Schema(
            type=OpenAPIType.ARRAY,
            items=_text(rules.LONGEST_REGION, "Region code."),
            min_items=1,
            max_items=rules.MOST_REGIONS,
            description="Tried after `region` instead of the priority list; `[region]` alone means no fallback. "
            "Without `region` only these are tried, in this order: DEFAULT_REGION is not added.",
        ),
        "billingMode": Schema(
            type=OpenAPIType.STRING,
            enum=list(BillingMode),
            default=BillingMode.SPOT.value,
            description="How it is paid for.",
        ),
        "spotFallback": Schema(
            type=OpenAPIType.BOOLEAN, default=False, description="Whether on-demand will do when no region has spot."
        ),
        "maxPrice": Schema(
            type=OpenAPIType.NUMBER,
            exclusive_minimum=0,
            maximum=float(rules.MOST_USD),
            description="Most USD per GPU-hour; dearer products are not chosen.",
        ),
        "waitForCapacity": Schema(
            one_of=[
                _whole(0, rules.LONGEST_WAIT_SECONDS, "Seconds."),
                Schema(type=OpenAPIType.STRING, pattern=rules.DURATION_PATTERN, min_length=2),
            ],
            description="How long to wait while every offer is short: seconds, or a text such as 2h, 30m or 1h30m; at "
            "most 24 hours. 0 fails at once; left out, it waits until the deadline of the create (20 minutes). With "
            "more than 0, a product that is sold out everywhere is accepted instead of refused with 404.",
        ),
        "webhookUrl": WEBHOOK_URL,
        "healthCheck": HEALTH_CHECK,
    },
)

ADOPTION: Final = Schema(
    type=OpenAPIType.OBJECT,
    description="All of it may be left out; unknown fields are ignored.",
    properties={"name": NAME, "webhookUrl": WEBHOOK_URL, "healthCheck": HEALTH_CHECK},
)

_NAME: Final = _text(LONGEST_PROVIDER_NAME, "The instance's name.")
_WEBHOOK: Final = _text(2048, "Where the changes that follow are told, instead of where the create said.")
_STARTS: Final = {
    "healthCheckConfig": HEALTH_CHECK,
    "targetPort": _whole(*SPEC_RANGES["target_port"], "Check this port alone."),
}


def _terms(*, named: bool, start_step: bool) -> RequestBody:
    """The body of a request for something to be done; it may be left out unless it must say the name."""
    properties: dict[str, Reference | Schema] = {
        "instanceName": _NAME,
        "webhookUrl": _WEBHOOK,
        **(_STARTS if start_step else {}),
    }
    schema = Schema(
        type=OpenAPIType.OBJECT,
        properties=properties,
        required=["instanceName"] if named else None,
        description="Unknown fields are ignored.",
    )
    return RequestBody(required=named, content={"application/json": OpenAPIMediaType(schema=schema)})


_KEY: Final = Parameter(
    name=HEADER,
    param_in="header",
    required=False,
    description="The same key and request within 24 hours gets the first answer again and does nothing.",
    schema=Schema(type=OpenAPIType.STRING, min_length=1, max_length=255),
)
KEY_HEADER: Final[dict[str, Any]] = _KEY.to_schema()
"""The same, as the document has it."""


@dataclass
class KeyedOperation(Operation):
    """An operation that takes an idempotency key."""

    def __post_init__(self) -> None:
        self.parameters = [*(self.parameters or []), _KEY]


@dataclass
class CreateOperation(KeyedOperation):
    """The creation of an instance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.request_body = RequestBody(
            required=True, content={"application/json": OpenAPIMediaType(schema=ORDER)}, description="What is wanted."
        )


@dataclass
class AdoptOperation(KeyedOperation):
    """The adoption of an instance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.request_body = RequestBody(
            required=False,
            content={"application/json": OpenAPIMediaType(schema=ADOPTION)},
            description="What to call it, and whom to tell.",
        )


@dataclass
class StartOperation(KeyedOperation):
    """A start or restart by id."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.request_body = _terms(named=False, start_step=True)


@dataclass
class StopOperation(KeyedOperation):
    """A stop by id."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.request_body = _terms(named=False, start_step=False)


@dataclass
class StartNamedOperation(KeyedOperation):
    """A start by name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.request_body = _terms(named=True, start_step=True)


@dataclass
class ActNamedOperation(KeyedOperation):
    """A stop or deletion by name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.request_body = _terms(named=True, start_step=False)
