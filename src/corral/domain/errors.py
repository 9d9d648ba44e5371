"""
Everything that can go wrong, by what may be done next.

    CorralError                     never raised itself
    ├─ CallerError                  the request must change
    │   ├─ SpecInvalidError           its fields are wrong (lists all of them)
    │   ├─ MalformedError             it cannot be read at all
    │   ├─ NotFoundError              it names something that is not there
    │   ├─ GoalRefusedError           it asks what cannot be done now
    │   ├─ UnauthorisedError          nobody we know asks
    │   ├─ ForbiddenError             somebody asks who may not
    │   └─ RateLimitError                 it comes too often
    ├─ CloudError                   what the provider did to us
    │   ├─ CloudTransientError        certainly did not happen: ask again later
    │   │   └─ CircuitOpenError         we did not even ask: the provider is failing
    │   ├─ CloudRefusedError          never will happen: stop asking
    │   ├─ CloudShortageError         not here, not now: try the next offer
    │   └─ CloudUnknownError          may have happened: look before asking again
    ├─ StoreError                   what our own memory did to us
    │   ├─ StoreUnavailableError      the database cannot be reached: later
    │   ├─ StoreNewerError            the database is newer than this code: upgrade
    │   └─ StaleError                 somebody else wrote first: drop our result and look again
    ├─ ShuttingDownError            this process is leaving: ask another
    ├─ OverloadedError                 this process has as many connections as it can take: ask again later
    └─ SettingsError                the operator must change a setting

Each class answers one question, *may I ask again?* (`retryable`), and carries a `code` that is public and stable.
HTTP statuses live in `api/http/errors.py`, exit codes in `cli/main.py`; this file knows neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


class CorralError(Exception):
    """The root of all our errors; only its children are raised."""

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
    """One wrong field of a request; `value` is left out when it may be secret."""

    field: str
    code: str
    message: str
    value: object = None
    shows_value: bool = True


class SpecInvalidError(CallerError):
    """Some fields of the request are wrong; `problems` lists every one of them."""

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


class GoalRefusedError(CallerError):
    """The request asks for what cannot be done in the present phase."""

    code = "OPERATION_IN_PROGRESS"


class UnauthorisedError(CallerError):
    """The caller is not known."""

    code = "UNAUTHORIZED"


class ForbiddenError(CallerError):
    """The caller is known and may not do this."""

    code = "FORBIDDEN"


class RateLimitError(CallerError):
    """The caller asks too often."""

    code = "RATE_LIMIT_EXCEEDED"
    retryable = True


class CloudError(CorralError):
    """The provider did not do what was asked; the children say what may be done next."""

    code = "NOVITA_API_ERROR"


class CloudTransientError(CloudError):
    """It certainly did not happen; asking again later may succeed."""

    retryable = True


class CircuitOpenError(CloudTransientError):
    """The provider keeps failing, so it was not asked at all."""

    code = "CIRCUIT_BREAKER_OPEN"


class CloudRefusedError(CloudError):
    """It will never happen as asked; asking again is useless."""


class CloudShortageError(CloudError):
    """Not in this place at this time; another offer may do."""

    code = "RESOURCE_CONSTRAINTS"
    retryable = True


class CloudUnknownError(CloudError):
    """It may have happened; look before asking again."""

    code = "NOVITA_API_TIMEOUT"
    retryable = True


class StoreError(CorralError):
    """Our own memory did not do what was asked."""

    code = "DATABASE_UNAVAILABLE"


class StoreUnavailableError(StoreError):
    """The database cannot be reached; it is expected back."""

    retryable = True


class StoreNewerError(StoreError):
    """The database was migrated by a newer release than this one."""


class StaleError(StoreError):
    """Somebody else changed the record first; our result is void."""

    code = "OPERATION_IN_PROGRESS"
    retryable = True


class ShuttingDownError(CorralError):
    """This process is stopping and takes no new work."""

    code = "SHUTTING_DOWN"
    retryable = True


class OverloadedError(CorralError):
    """This process has as many connections as it can take."""

    code = "TOO_MANY_CONNECTIONS"
    retryable = True


class SettingsError(CorralError):
    """One or more settings are wrong; the message names each, its value and what is accepted."""

    code = "INVALID_SETTINGS"
