"""
Every error, grouped by what the caller may do next.

    CorralError                     never raised itself
    ├─ CallerError                  the request must change
    │   ├─ SpecInvalidError           some fields are invalid (lists all of them)
    │   ├─ MalformedError             the body cannot be read
    │   ├─ NotFoundError              it names something that does not exist
    │   │   └─ OutOfStockError          every offer for it is short at the moment: retry later
    │   ├─ GoalRefusedError           not possible in the current phase
    │   ├─ UnauthorisedError          the caller is not identified
    │   ├─ ForbiddenError             the caller is not allowed to do this
    │   ├─ BudgetExceededError        a budget does not allow its cost
    │   └─ RateLimitError             the caller sends too many requests
    ├─ CloudError                   a failure of the provider
    │   ├─ CloudTransientError        certainly not executed: retry later
    │   │   ├─ CircuitOpenError         not sent, because the provider keeps failing
    │   │   └─ ShareUsedUpError         not sent, because measurements have a share of the rate limit
    │   ├─ CloudRefusedError          permanently refused: do not retry
    │   ├─ CloudShortageError         out of stock: try the next offer
    │   └─ CloudUnknownError          may have been executed: check before a retry
    ├─ StoreError                   a failure of our database
    │   ├─ StoreUnavailableError      it cannot be reached: retry later
    │   ├─ StoreNewerError            its schema is newer than this code: upgrade
    │   └─ StaleError                 the record changed meanwhile: discard the result, read again
    ├─ IllegalTransitionError       a mistake in Corral: the change of phase was not written
    ├─ ShuttingDownError            this process is stopping: use another
    ├─ OverloadedError              too many connections to this process: retry later
    └─ SettingsError                the operator must change a setting

`retryable` says whether a retry may succeed; `code` is public and stable; `NEXT_STEPS` says what a person can do about
it. HTTP statuses are in `api/http/errors.py`,
exit codes in `cli/exit_codes.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final


class CorralError(Exception):
    """The base class; only subclasses are raised."""

    code: str = "INTERNAL_SERVER_ERROR"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: Mapping[str, object] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, object] = details or {}
        self.retry_after_seconds = retry_after_seconds
        if code is not None:
            self.code = code


class CallerError(CorralError):
    """The request must change before it can succeed."""

    code = "VALIDATION_ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """One invalid field of a request; `value` is left out when it may be secret."""

    field: str
    code: str
    message: str
    value: object = None
    shows_value: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an instance or an operation is failed; the code is public and stable."""

    code: str
    message: str


class SpecInvalidError(CallerError):
    """Some fields of the request are invalid; `problems` lists every one."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        names = ", ".join(dict.fromkeys(p.field for p in problems))
        super().__init__(f"invalid request: {names}")
        self.problems = tuple(problems)


class MalformedError(CallerError):
    """The request cannot be read: not JSON, too large, or of the wrong media type."""

    code = "INVALID_JSON"


class NotFoundError(CallerError):
    """The request names something that does not exist."""

    code = "NOT_FOUND"


class OutOfStockError(NotFoundError):
    """An offer fits the request and is out of stock at the moment."""

    code = "NO_OPTIMAL_PRODUCT_ANY_REGION"
    retryable = True


class GoalRefusedError(CallerError):
    """The request is not possible in the current phase."""

    code = "OPERATION_IN_PROGRESS"


class UnauthorisedError(CallerError):
    """The caller is not identified."""

    code = "UNAUTHORIZED"


class ForbiddenError(CallerError):
    """The caller is identified and not allowed to do this."""

    code = "FORBIDDEN"


class BudgetExceededError(CallerError):
    """A budget does not allow the cost of the request; `details` says which, and how much is left of it."""

    code = "BUDGET_EXCEEDED"


class RateLimitError(CallerError):
    """The caller sends too many requests."""

    code = "RATE_LIMIT_EXCEEDED"
    retryable = True


class CloudError(CorralError):
    """The provider did not do what was requested."""

    code = "NOVITA_API_ERROR"


class CloudTransientError(CloudError):
    """Certainly not executed; a retry may succeed."""

    retryable = True


class CircuitOpenError(CloudTransientError):
    """Not sent, because the provider keeps failing."""

    code = "CIRCUIT_BREAKER_OPEN"


class ShareUsedUpError(CloudTransientError):
    """Not sent, because the share of the rate limit for measurements is used up."""


class CloudRefusedError(CloudError):
    """Permanently refused; a retry would fail again."""


class CloudShortageError(CloudError):
    """Out of stock; another offer may be available."""

    code = "RESOURCE_CONSTRAINTS"
    retryable = True


class CloudUnknownError(CloudError):
    """It may have been executed; check before a retry."""

    code = "NOVITA_API_TIMEOUT"
    retryable = True


class StoreError(CorralError):
    """The database did not do what was requested."""

    code = "DATABASE_UNAVAILABLE"


class StoreUnavailableError(StoreError):
    """The database cannot be reached at the moment."""

    retryable = True


class StoreNewerError(StoreError):
    """The database was migrated by a newer release than this one."""


class StaleError(StoreError):
    """The record changed since it was read; the result must be discarded."""

    code = "OPERATION_IN_PROGRESS"
    retryable = True


class IllegalTransitionError(CorralError):
    """A change of phase that the lifecycle does not have: a mistake in Corral. Nothing of the change was written."""


class ShuttingDownError(CorralError):
    """This process is stopping and takes no new work."""

    code = "SHUTTING_DOWN"
    retryable = True


class OverloadedError(CorralError):
    """This process has as many connections as it can take."""

    code = "TOO_MANY_CONNECTIONS"
    retryable = True


class SettingsError(CorralError):
    """One or more settings are invalid; the message names each, its value and what is accepted."""

    code = "INVALID_SETTINGS"


NEXT_STEPS: Final[Mapping[str, str]] = {
    "NOVITA_API_ERROR": "The provider did not carry out the call: look for an outage with `corral doctor` and on the "
    "provider's status page.",
    "NO_OPTIMAL_PRODUCT_ANY_REGION": "Allow more: another product, more regions, on-demand billing or a higher limit "
    "on the price.",
    "RESOURCE_CONSTRAINTS": "The provider has no such GPU free there: try again later, or choose another region or "
    "product.",
    "BUDGET_EXCEEDED": "Stop or delete machines that the budget counts, wait until it begins again, or have an admin "
    "raise its limit (`corral budgets set`).",
    "INSUFFICIENT_BALANCE": "Top up the account at the provider, then create it again.",
    "AUTHENTICATION_FAILED": "The provider refused the key: set a valid NOVITA_API_KEY and restart Corral.",
    "REGISTRY_AUTH_NOT_FOUND": "The image needs a registry login that the account does not have: add it at the "
    "provider.",
    "ACCOUNT_NOT_LISTED": "Check with `corral doctor` whether the provider responds, then create it again.",
    "PRODUCT_NOT_FOUND": "Choose a product that `corral products` lists.",
    "TEMPLATE_NOT_FOUND": "Choose a template that exists at the provider.",
    "SECRET_KEY_UNUSABLE": "Put the file with the key that its secrets were encrypted with in place: `corral doctor` "
    "says which. Until its deadline the create is tried again.",
    "SECRETS_LOST": "Create it again, with its secrets.",
    "VOLUME_NOT_FOUND": "Choose a volume that GET /api/volumes lists.",
    "VOLUME_ELSEWHERE": "Add the region of the volumes to the request; volumes of different regions need an instance "
    "each.",
    "INVALID_TEMPLATE": "Correct the template at the provider, then create it again.",
    "PROVISIONING_FAILED": "The provider could not make it run: check the template's image and command, then delete "
    "this instance and create another.",
    "STARTUP_TIMEOUT": "It is still watched and may yet come up; delete it to stop paying. A large image may need a "
    "longer INSTANCE_STARTUP_MAX_WAIT_TIME.",
    "STARTUP_FAILED": "See its events for what the provider reported, then start it again or delete it.",
    "HEALTH_CHECK_FAILED": "It runs, but its ports do not respond as they should: it is checked again, ever more "
    "rarely, and becomes ready when they do. Restart it, or look at it in the provider's console.",
    "HEALTH_CHECK_TIMEOUT": "It runs, but its ports did not respond in time: it is checked again, ever more rarely, "
    "and becomes ready when they do. Allow more time with HEALTH_CHECK_MAX_WAIT_TIME_MS.",
    "SPOT_RECLAIMED": "The provider took the spot machine back: start it again, or create another. Its disk is kept "
    "for some days only.",
    "INSTANCE_VANISHED": "The provider no longer lists it: delete it here and create another.",
}
"""What a person can do about an error, by its code; all codes are in docs/reference/errors.md."""
FOR_OTHER_FAILURES: Final = "See its events for the cause; delete it to stop paying."


def next_step(code: str) -> str | None:
    """What can be done about an error with *code*; None when there is no advice beyond its message."""
    return NEXT_STEPS.get(code)


def failure_next_step(code: str) -> str:
    """What can be done about an instance or operation that failed with *code*."""
    return NEXT_STEPS.get(code, FOR_OTHER_FAILURES)
