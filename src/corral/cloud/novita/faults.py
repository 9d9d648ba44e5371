"""
What a failed request to the provider means: three tables, and the mapping from them to our errors.

By reason (the provider's own list, complete), by words in its message (it often gives a general reason and the real
one in the text), by HTTP status; and by the HTTP library's exceptions. Anything in no table *may have happened*.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp
import msgspec

from corral.cloud.exchange import Call, CallOutcome, FaultError
from corral.cloud.novita import values, wire
from corral.domain.errors import (
    CloudError,
    CloudRefusedError,
    CloudShortageError,
    CloudTransientError,
    CloudUnknownError,
)

MOST_RETRY_AFTER_SECONDS: Final = 3600.0
"""Longest pause the provider may impose. Shorter, and a provider that asks for minutes is asked again too early, which
may lengthen its limit; longer, and one wrong header stops deletes for as long, while machines are billed."""

OUTCOME_BY_REASON: Final[Mapping[str, CallOutcome]] = {
    # general
    "UNKNOWN": CallOutcome.MAY_HAVE_HAPPENED,
    "REQUEST": CallOutcome.NEVER_WILL,
    "VALIDATOR_PARAM": CallOutcome.NEVER_WILL,
    "RESOURCE_NOT_FOUND": CallOutcome.GONE,
    "CONFLICT": CallOutcome.MAY_HAVE_HAPPENED,  # it exists or moves already: a lookup shows it
    "OPERATION_LIMIT": CallOutcome.DID_NOT_HAPPEN,
    "RATE_LIMIT_EXCEEDED": CallOutcome.THROTTLED,
    "SEND_MSG_ERROR": CallOutcome.MAY_HAVE_HAPPENED,  # an internal message failed, before or after the change
    # auth and user
    "UNAUTHORIZED": CallOutcome.AUTH,
    "FORBIDDEN": CallOutcome.AUTH,
    "INVALID_API_KEY": CallOutcome.AUTH,
    "GET_TOKEN_FAILED": CallOutcome.AUTH,
    "INVALID_USER_TOKEN": CallOutcome.AUTH,
    "BANNED_USER": CallOutcome.AUTH,
    "USER_NOT_FOUND": CallOutcome.AUTH,
    "USER_NOT_ACTIVATED": CallOutcome.AUTH,
    "INVALID_USER_OR_PASSWORD": CallOutcome.AUTH,
    "USER_ALREADY_EXISTS": CallOutcome.NEVER_WILL,
    "USER_ALREADY_ACTIVATED": CallOutcome.NEVER_WILL,
    "INVALID_CODE": CallOutcome.NEVER_WILL,
    "INVALID_PUBLIC_KEY": CallOutcome.NEVER_WILL,
    "USER_PHONE_NOT_CONSIST": CallOutcome.NEVER_WILL,
    "SEND_CODE_TOO_FAST": CallOutcome.THROTTLED,
    "INCORRECT_USER_SYNCER_REQUIRE_PARAMS": CallOutcome.NEVER_WILL,
    # capacity
    "INSUFFICIENT_RESOURCE": CallOutcome.NOT_HERE,
    "MIGRATE_INSUFFICIENT_RESOURCE": CallOutcome.NOT_HERE,
    "GPU_SPEC_USED": CallOutcome.NOT_HERE,
    "CLUSTER_STATUS": CallOutcome.NOT_HERE,
    "NODE_STATUS": CallOutcome.NOT_HERE,
    "DEPENDENT_RESOURCE_STATE": CallOutcome.NOT_HERE,
    # money
    "BALANCE_NOT_ENOUGH": CallOutcome.MONEY,
    "EXPIRED_OR_BALANCE_NOT_ENOUGH": CallOutcome.MONEY,
    "CREATE_INSTANCE_LIMIT": CallOutcome.MONEY,
    "UNSUPPORTED_BILLING_MODE": CallOutcome.NOT_HERE,  # this product is not sold so; another may be
    "WALLET_NOT_FOUND": CallOutcome.MONEY,
    "WALLET_UNSUPPORT_RECHARGE_METHOD": CallOutcome.NEVER_WILL,
    "ORDER_NOT_FOUND": CallOutcome.NEVER_WILL,
    "SAVING_PLAN_ALREADY_EXISTS": CallOutcome.NEVER_WILL,
    # instance
    "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE": CallOutcome.NEVER_WILL,
    "CREATING_INSTANCE_NOT_SUPPORT_RENEWAL": CallOutcome.NEVER_WILL,
    "INSTANCE_LOCAL_STORAGE_NOT_FOUND": CallOutcome.NEVER_WILL,
    "INVALID_COMMAND_PARAM": CallOutcome.NEVER_WILL,
    # Storage, images, networks and jobs: what is missing here is not what the call was about, so it is not GONE.
    "NETWORK_STORAGE_NOT_FOUND": CallOutcome.NEVER_WILL,
    "NETWORK_STORAGE_IN_USE": CallOutcome.NEVER_WILL,
    "NETWORK_STORAGE_UNAVAILABLE": CallOutcome.NOT_HERE,
    "NETWORK_STORAGE_TOO_LARGE": CallOutcome.NEVER_WILL,
    "CUR_CLUSTER_NETWORK_STORAGE_NOT_SUPPORT": CallOutcome.NOT_HERE,
    "IMAGE_NOT_FOUND": CallOutcome.NEVER_WILL,
    "IMAGE_AUTH_IN_USE": CallOutcome.NEVER_WILL,
    "TEMPLATE_NOT_FOUND": CallOutcome.GONE,
    "TEMPLATE_IS_PRIVATE": CallOutcome.NEVER_WILL,
    "NETWORK_NOT_FOUND": CallOutcome.NEVER_WILL,
    "NETWORK_IN_USE": CallOutcome.NEVER_WILL,
    "NETWORK_MAX_LIMIT": CallOutcome.NEVER_WILL,
    "JOB_NOT_FOUND": CallOutcome.NEVER_WILL,
    # serverless: never called, listed so that the table is whole
    "SERVERLESS_ENDPOINT_NOT_FOUND": CallOutcome.NEVER_WILL,
    "SERVERLESS_WORKER_NOT_FOUND": CallOutcome.NEVER_WILL,
    "SERVERLESS_PRODUCT_NOT_FOUND": CallOutcome.NEVER_WILL,
    "SERVERLESS_APP_NAME_IS_EXIST": CallOutcome.NEVER_WILL,
    # billing
    "LIST_BILL_TOO_FAST": CallOutcome.THROTTLED,
    "INVALID_PRODUCT_CATEGORY": CallOutcome.NEVER_WILL,
    "INVALID_BILL_CYCLE": CallOutcome.NEVER_WILL,
    "LIST_BILL_ERROR": CallOutcome.MAY_HAVE_HAPPENED,
}

GENERAL_REASONS: Final = frozenset({"", "REQUEST", "VALIDATOR_PARAM", "CONFLICT", "OPERATION_LIMIT"})
"""Reasons that say little; the text of the message comes before them."""

OUTCOME_BY_TEXT: Final[tuple[tuple[str, CallOutcome], ...]] = (
    ("invalid state change", CallOutcome.MAY_HAVE_HAPPENED),  # often it was carried out all the same
    ("insufficient_resource", CallOutcome.NOT_HERE),
    ("insufficient resource", CallOutcome.NOT_HERE),
    ("balance_not_enough", CallOutcome.MONEY),
    ("balance not enough", CallOutcome.MONEY),
    ("image not foun", CallOutcome.NEVER_WILL),
    ("not foun", CallOutcome.GONE),  # the provider also spells it "not fount"
)

IMAGE_AUTH: Final = "IMAGE_AUTH"
"""Our own reason for a refusal that is about the login of the image's registry."""
IMAGE_AUTH_WORDS: Final = ("imageauth", "image auth", "registry auth", "repository auth")

OUTCOME_BY_STATUS: Final[Mapping[int, CallOutcome]] = {
    401: CallOutcome.AUTH,
    403: CallOutcome.AUTH,
    404: CallOutcome.GONE,
    408: CallOutcome.MAY_HAVE_HAPPENED,
    409: CallOutcome.MAY_HAVE_HAPPENED,
    425: CallOutcome.DID_NOT_HAPPEN,
    429: CallOutcome.THROTTLED,
}
"""Statuses that mean something without a known reason; other 4xx never will, anything else may have happened."""

OUTCOME_BY_GATEWAY: Final[Mapping[int, CallOutcome]] = {
    403: CallOutcome.DID_NOT_HAPPEN,
    404: CallOutcome.DID_NOT_HAPPEN,
}
"""
Answers that are not the provider's JSON come from a gateway before it (Cloudflare, a proxy, a wrong address), which did
not pass the request on. Its 404 does not mean that the instance is gone, nor its 403 that the key is bad.
"""

NOT_SENT: Final[tuple[type[BaseException], ...]] = (
    aiohttp.ClientConnectorError,  # refused, unreachable, no such host; also TLS, which comes before the request
    aiohttp.ServerFingerprintMismatch,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
)
"""Exceptions that come before the first byte of the request is sent; every other may have come after."""

TIMED_OUT: Final[tuple[type[BaseException], ...]] = (TimeoutError, aiohttp.ServerTimeoutError)

_WORD = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


def refusal(status: int, body: bytes, *, retry_after: str | None, now: datetime) -> FaultError:
    """What an answer other than 2xx means."""
    problem = _problem(body)
    pause = retry_after_seconds(retry_after, now)
    if problem is None:
        return FaultError(
            _outcome_by_gateway(status),
            f"HTTP {status} without its error shape",
            status=status,
            retry_after_seconds=pause,
        )
    reason = values.text(problem.reason)
    message = values.text(problem.message)
    outcome = _outcome_of(status, reason, message.lower(), is_its_own=bool(reason) or problem.code is not None)
    shown = reason if _WORD.fullmatch(reason) else ""
    if outcome in {CallOutcome.GONE, CallOutcome.NEVER_WILL} and any(
        words in message.lower() for words in IMAGE_AUTH_WORDS
    ):
        # It is the login that is refused or missing, not what the call was about.
        outcome, shown = CallOutcome.NEVER_WILL, IMAGE_AUTH
    because = f"HTTP {status} {shown}".rstrip()
    return FaultError(outcome, because, status=status, reason=shown, retry_after_seconds=pause)


def unreadable(status: int, why: str) -> FaultError:
    """What an unusable 2xx means: most likely carried out, but the result is lost."""
    return FaultError(CallOutcome.MAY_HAVE_HAPPENED, f"HTTP {status} with {why}", status=status)


def broken(error: BaseException) -> FaultError:
    """What an exception of the HTTP library means."""
    outcome = CallOutcome.DID_NOT_HAPPEN if isinstance(error, NOT_SENT) else CallOutcome.MAY_HAVE_HAPPENED
    return FaultError(outcome, type(error).__name__, timed_out=isinstance(error, TIMED_OUT))


def retry_after_seconds(value: str | None, now: datetime) -> float | None:
    """The pause that a Retry-After header asks for, in seconds or as a date; None when it is not valid."""
    if not value:
        return None
    seconds = values.number(value)
    if seconds is None:
        try:
            until = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError):
            return None
        seconds = (until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds()
    return min(max(seconds, 0.0), MOST_RETRY_AFTER_SECONDS)


def error_for(fault: FaultError, call: Call) -> CloudError:
    """Our error for *fault* in answer to *call*, in our words; of the provider's only its reason is shown."""
    what = f"{call.endpoint} {call.about}".rstrip()
    details = {"reason": fault.reason} if fault.reason else {}
    pause = fault.retry_after_seconds
    match fault.outcome:
        case CallOutcome.DID_NOT_HAPPEN | CallOutcome.THROTTLED:
            code = "NOVITA_API_TIMEOUT" if fault.timed_out else None
            message = f"the provider did not carry out {what}: {fault.because}"
            return CloudTransientError(message, code=code, details=details, retry_after_seconds=pause)
        case CallOutcome.MAY_HAVE_HAPPENED if call.changes:
            code = "NOVITA_API_TIMEOUT" if fault.timed_out else "NOVITA_API_ERROR"
            message = f"the provider may have carried out {what}: {fault.because}"
            return CloudUnknownError(message, code=code, details=details, retry_after_seconds=pause)
        case CallOutcome.MAY_HAVE_HAPPENED:
            code = "NOVITA_API_TIMEOUT" if fault.timed_out else None
            message = f"the provider did not answer {what}: {fault.because}"
            return CloudTransientError(message, code=code, details=details, retry_after_seconds=pause)
        case CallOutcome.NOT_HERE:
            return CloudShortageError(f"the provider has no capacity for {what}: {fault.because}", details=details)
        case CallOutcome.GONE:
            code = _missing_code(fault, call)
            return CloudRefusedError(f"the provider knows no such thing: {what}", code=code, details=details)
        case CallOutcome.MONEY:
            message = f"the account cannot pay for {what} ({fault.because}): recharge it or delete other instances"
            return CloudRefusedError(message, code="INSUFFICIENT_BALANCE", details=details)
        case CallOutcome.AUTH:
            message = f"the provider does not accept NOVITA_API_KEY ({fault.because})"
            return CloudRefusedError(message, code="AUTHENTICATION_FAILED", details=details)
        case CallOutcome.NEVER_WILL:
            code = "REGISTRY_AUTH_NOT_FOUND" if fault.reason == IMAGE_AUTH else None
            return CloudRefusedError(f"the provider refuses {what}: {fault.because}", code=code, details=details)


def _outcome_of(status: int, reason: str, words: str, *, is_its_own: bool) -> CallOutcome:
    """The outcome by the first table that has it. JSON without a code or reason may be a gateway's, and proves less."""
    if reason not in GENERAL_REASONS and reason in OUTCOME_BY_REASON:
        return OUTCOME_BY_REASON[reason]
    if status < 500:  # noqa: PLR2004  # the text of a broken server proves nothing
        for known, outcome in OUTCOME_BY_TEXT:
            if known in words and (is_its_own or outcome is not CallOutcome.GONE):
                return outcome
    if reason in OUTCOME_BY_REASON:
        return OUTCOME_BY_REASON[reason]
    if reason.endswith("NOT_FOUND") and status < 500:  # noqa: PLR2004
        return CallOutcome.GONE
    return _outcome_by_status(status) if is_its_own else _outcome_by_gateway(status)


def _outcome_by_gateway(status: int) -> CallOutcome:
    return OUTCOME_BY_GATEWAY.get(status) or _outcome_by_status(status)


def _outcome_by_status(status: int) -> CallOutcome:
    default = CallOutcome.NEVER_WILL if 400 <= status < 500 else CallOutcome.MAY_HAVE_HAPPENED  # noqa: PLR2004
    return OUTCOME_BY_STATUS.get(status, default)


def _missing_code(fault: FaultError, call: Call) -> str:
    return "TEMPLATE_NOT_FOUND" if fault.reason == "TEMPLATE_NOT_FOUND" else call.missing_code


def _problem(body: bytes) -> wire.Problem | None:
    """The provider's error shape, if *body* has it."""
    try:
        problem = msgspec.json.decode(body, type=wire.Problem)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return problem if problem.reason or problem.message else None
