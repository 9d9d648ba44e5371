"""
Errors as HTTP responses: one table of statuses, one body shape.

A server error shows no stack trace, no secret and no response of another server; the log has those under the same
request id.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import msgspec

from corral.api.http.context import RequestIds
from corral.domain import errors
from corral.domain.errors import next_step
from corral.domain.timing import iso

_CLASSES: Final[Mapping[HTTPStatus, tuple[type[errors.CorralError], ...]]] = {
    HTTPStatus.BAD_REQUEST: (errors.CallerError, errors.SpecInvalidError, errors.MalformedError),
    HTTPStatus.UNAUTHORIZED: (errors.UnauthorisedError,),
    HTTPStatus.PAYMENT_REQUIRED: (errors.BudgetExceededError,),
    HTTPStatus.FORBIDDEN: (errors.ForbiddenError,),
    HTTPStatus.NOT_FOUND: (errors.NotFoundError, errors.OutOfStockError),
    HTTPStatus.CONFLICT: (errors.GoalRefusedError, errors.StaleError),
    HTTPStatus.TOO_MANY_REQUESTS: (errors.RateLimitError,),
    HTTPStatus.INTERNAL_SERVER_ERROR: (errors.IllegalTransitionError, errors.SettingsError),
    HTTPStatus.BAD_GATEWAY: (
        *(errors.CloudError, errors.CloudTransientError, errors.ShareUsedUpError, errors.CloudRefusedError),
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        *(errors.CircuitOpenError, errors.CloudShortageError, errors.ShuttingDownError, errors.OverloadedError),
        *(errors.StoreError, errors.StoreUnavailableError, errors.StoreNewerError),
    ),
    HTTPStatus.GATEWAY_TIMEOUT: (errors.CloudUnknownError,),
}
STATUS_BY_CLASS: Final = {kind: status for status, kinds in _CLASSES.items() for kind in kinds}
"""The status of each kind of error; a test fails on a class without a row."""

STATUS_BY_CODE: Final[Mapping[str, HTTPStatus]] = {
    "INVALID_REQUEST": HTTPStatus.BAD_REQUEST,
    "INSTANCE_NOT_STARTABLE": HTTPStatus.BAD_REQUEST,
    "INSTANCE_NOT_STOPPABLE": HTTPStatus.BAD_REQUEST,
    "PRODUCT_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "TEMPLATE_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "INSTANCE_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "REGISTRY_AUTH_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "METHOD_NOT_ALLOWED": HTTPStatus.METHOD_NOT_ALLOWED,
    "REQUEST_TIMEOUT": HTTPStatus.REQUEST_TIMEOUT,
    "BODY_TOO_LARGE": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "UNSUPPORTED_MEDIA_TYPE": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "NOVITA_API_TIMEOUT": HTTPStatus.GATEWAY_TIMEOUT,
}
"""Statuses of codes that differ from the one of their class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error, ready to be sent."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def problem(error: Exception, ids: RequestIds, now: datetime, *, headers: Mapping[str, str] | None = None) -> Problem:
    """The response to *error*; one that is not a CorralError becomes an internal error without details."""
    known = error if isinstance(error, errors.CorralError) else errors.CorralError("an internal error occurred")
    status = _status(known)
    body: dict[str, Any] = {
        "code": known.code,
        "message": known.message,
        "timestamp": iso(now),
        "requestId": ids.request_id,
        "correlationId": ids.correlation_id,
        "retryable": known.retryable,
    }
    advice = next_step(known.code)
    if advice is not None:
        body["nextStep"] = advice
    if isinstance(known, errors.SpecInvalidError):
        body["validationErrors"] = [_field(p) for p in known.problems]
    if known.details:
        body["details"] = dict(known.details)
    sent = {"content-type": "application/json", **(headers or {})}
    if isinstance(known, errors.UnauthorisedError):
        sent["www-authenticate"] = "Bearer"
    if known.retry_after_seconds is not None:
        seconds = max(1, math.ceil(known.retry_after_seconds))
        body["retryAfter"] = seconds
        sent["retry-after"] = str(seconds)
    return Problem(status=status, body=msgspec.json.encode({"error": body}, enc_hook=str), headers=sent)


def _status(error: errors.CorralError) -> HTTPStatus:
    if error.code in STATUS_BY_CODE:
        return STATUS_BY_CODE[error.code]
    rows = (STATUS_BY_CLASS[kind] for kind in type(error).__mro__ if kind in STATUS_BY_CLASS)
    return next(rows, HTTPStatus.INTERNAL_SERVER_ERROR)


def _field(problem: errors.FieldProblem) -> dict[str, Any]:
    shown = {"field": problem.field, "code": problem.code, "message": problem.message}
    return {**shown, "value": problem.value} if problem.shows_value else shown
