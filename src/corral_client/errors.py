"""
What can go wrong, one class for each thing a caller may want to do about it.

    CorralError
    ├─ CorralApiError        the service answered, with an error
    │   ├─ Invalid           400, 405, 413, 415   the request must change; see `validation_errors`
    │   ├─ Unauthorised      401, 403             the key is missing, wrong or may not do this
    │   ├─ BudgetExceeded    402                  a budget does not allow it; `details` says how much is left
    │   ├─ NotFound          404                  no such instance, product, template, …
    │   │   └─ OutOfStock                         the product is sold out at the moment: create it again later
    │   ├─ Conflict          409                  not now, or not like this; `details` says what prevents it
    │   │   └─ Ambiguous                          several live instances have that name; see `ids`
    │   ├─ RateLimited       429                  too often; see `retry_after`
    │   ├─ ServerError       5xx                  not the caller's fault
    │   └─ ConnectionFailed  no answer            unreachable, cut off or too slow; `status` is 0
    ├─ InstanceFailed                             the instance that was waited for will not become ready
    └─ WaitTimeout                                it may still become ready; the work continues
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from corral_client.models.instances import Instance

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a response raises when it does not come from Corral."""
RETRYABLE_STATUSES: Final = frozenset({429, 502, 503, 504})
"""For responses without `retryable`, such as a proxy's."""


class FieldError(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a request that was refused."""

    field: str
    code: str
    message: str
    value: object = None


class CorralError(Exception):
    """Every error of this package."""


class CorralApiError(CorralError):
    """
    A request that did not succeed.

    `code` is stable and meant for programs, `message` for people. `request_id` names the request in the service's log.
    `retryable` says whether the same request may succeed later, `retry_after` in how many seconds. `next_step` is what
    a person can do about it, where the service knows.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int = 0,
        request_id: str | None = None,
        details: Mapping[str, object] | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        validation_errors: Sequence[FieldError] = (),
        next_step: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.request_id = request_id
        self.details = dict(details or {})
        self.retryable = retryable
        self.retry_after = retry_after
        self.validation_errors = tuple(validation_errors)
        self.next_step = next_step

    def __str__(self) -> str:
        fields = "".join(f"; {error.field}: {error.message}" for error in self.validation_errors)
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"{self.code}: {self.message}{fields}{request}"


class Invalid(CorralApiError):
    """The request must change."""


class Unauthorised(CorralApiError):
    """The key is missing, wrong or may not do this."""


class BudgetExceeded(CorralApiError):
    """
    A budget does not allow what a create or start would reserve.

    `details` has the `budget`, its `limit`, what is `spent` and `reserved` of it, what was `wanted`, and when it begins
    again (`resetsAt`, None: never).
    """


class NotFound(CorralApiError):
    """No such instance, product, template or route."""


class OutOfStock(NotFound):
    """
    The product exists and is sold out at the moment; `details["tried"]` lists every offer.

    `retryable`, but not retried by the client: stock returns in minutes or hours. `create(wait_for_capacity="2h")` has
    the service wait.
    """


class Conflict(CorralApiError):
    """Not now, or not like this."""


class Ambiguous(Conflict):
    """Several live instances have that name; see `instances` and `ids`."""

    def __init__(self, name: str, instances: Sequence[Instance]) -> None:
        ids = [instance.id for instance in instances]
        super().__init__(
            f"{len(ids)} instances are named {name!r}: use one of the ids {', '.join(ids)}",
            code="NAME_AMBIGUOUS",
            status=409,
            details={"ids": ids},
        )
        self.name = name
        self.instances = tuple(instances)
        self.ids = tuple(ids)


class RateLimited(CorralApiError):
    """Too many requests."""


class ServerError(CorralApiError):
    """Not the caller's fault."""


class ConnectionFailed(CorralApiError):
    """No answer: unreachable, cut off or too slow. Whether the request was executed is unknown."""


class InstanceFailed(CorralError):
    """The instance that was waited for will not become ready; `code` and `message` say why."""

    def __init__(self, instance_id: str, *, code: str, message: str, status: str) -> None:
        super().__init__(f"{instance_id} is {status}: {code}: {message}")
        self.instance_id = instance_id
        self.code = code
        self.message = message
        self.status = status


class WaitTimeout(CorralError, TimeoutError):
    """The wait ended before its aim was reached; the work continues."""

    def __init__(self, instance_id: str, *, status: str, timeout: float) -> None:
        super().__init__(f"{instance_id} is still {status} after {timeout:g} s")
        self.instance_id = instance_id
        self.status = status


class _Body(msgspec.Struct, rename="camel"):
    code: str
    message: str
    request_id: str | None = None
    details: dict[str, object] = {}
    retryable: bool | None = None
    retry_after: float | None = None
    validation_errors: list[FieldError] = []
    next_step: str | None = None


class _Envelope(msgspec.Struct):
    error: _Body


_NO_OFFER: Final = "NO_OPTIMAL_PRODUCT_ANY_REGION"
_BY_STATUS: Final[Mapping[int, type[CorralApiError]]] = {
    401: Unauthorised,
    402: BudgetExceeded,
    403: Unauthorised,
    404: NotFound,
    409: Conflict,
    429: RateLimited,
}


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> CorralApiError:
    """The error for a response with *status*, of Corral or of a proxy."""
    try:
        found = msgspec.json.decode(body, type=_Envelope).error
    except UNREADABLE:
        found = _Body(code=f"HTTP_{status}", message=_unexplained(status, headers))
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else Invalid)  # noqa: PLR2004
    if found.code == _NO_OFFER and found.retryable:  # else offers are too expensive, or in other regions only
        kind = OutOfStock
    return kind(
        found.message,
        code=found.code,
        status=status,
        request_id=found.request_id or headers.get("X-Request-ID"),
        details=found.details,
        retryable=status in RETRYABLE_STATUSES if found.retryable is None else found.retryable,
        retry_after=_seconds(headers.get("Retry-After") if found.retry_after is None else found.retry_after),
        validation_errors=found.validation_errors,
        next_step=found.next_step,
    )


def _unexplained(status: int, headers: Mapping[str, str]) -> str:
    location = headers.get("Location")
    if 300 <= status < 400 and location:  # noqa: PLR2004  # not followed: the key is for the address that was given
        return f"the service redirects to {location}, which is not followed; use the address that it redirects to"
    return f"the answer was HTTP {status} without an explanation"


def _seconds(value: str | float | None) -> float | None:
    """Seconds to wait; Corral does not send the form with a date."""
    try:
        return None if value is None else max(0.0, float(value))
    except ValueError:
        return None
