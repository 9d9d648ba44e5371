"""What each failure means, walked over everything the provider and the HTTP library can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import aiohttp
import msgspec
import pytest

from corral.cloud.exchange import Call, CallOutcome, FaultError
from corral.cloud.novita import faults
from corral.domain.errors import (
    CloudError,
    CloudRefusedError,
    CloudShortageError,
    CloudTransientError,
    CloudUnknownError,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
READ = Call(endpoint="instance", method="GET", path="/", about="abc", missing_code="INSTANCE_NOT_FOUND")
CHANGE = Call(endpoint="create", method="POST", path="/", about="abc", missing_code="PRODUCT_NOT_FOUND")

DOCUMENTED = re.findall(
    r"\w+",
    """
    UNKNOWN REQUEST VALIDATOR_PARAM RESOURCE_NOT_FOUND CONFLICT OPERATION_LIMIT RATE_LIMIT_EXCEEDED SEND_MSG_ERROR
    UNAUTHORIZED FORBIDDEN GET_TOKEN_FAILED INVALID_USER_TOKEN BANNED_USER USER_NOT_FOUND USER_ALREADY_EXISTS
    USER_NOT_ACTIVATED USER_ALREADY_ACTIVATED INVALID_USER_OR_PASSWORD INVALID_CODE INVALID_PUBLIC_KEY
    USER_PHONE_NOT_CONSIST SEND_CODE_TOO_FAST INCORRECT_USER_SYNCER_REQUIRE_PARAMS INSUFFICIENT_RESOURCE
    MIGRATE_INSUFFICIENT_RESOURCE GPU_SPEC_USED CLUSTER_STATUS NODE_STATUS DEPENDENT_RESOURCE_STATE
    BALANCE_NOT_ENOUGH EXPIRED_OR_BALANCE_NOT_ENOUGH CREATE_INSTANCE_LIMIT UNSUPPORTED_BILLING_MODE
    WALLET_NOT_FOUND WALLET_UNSUPPORT_RECHARGE_METHOD ORDER_NOT_FOUND SAVING_PLAN_ALREADY_EXISTS
    PREPAID_INSTANCE_NOT_SUPPORT_RELEASE CREATING_INSTANCE_NOT_SUPPORT_RENEWAL INSTANCE_LOCAL_STORAGE_NOT_FOUND
    INVALID_COMMAND_PARAM NETWORK_STORAGE_NOT_FOUND NETWORK_STORAGE_IN_USE NETWORK_STORAGE_UNAVAILABLE
    NETWORK_STORAGE_TOO_LARGE CUR_CLUSTER_NETWORK_STORAGE_NOT_SUPPORT IMAGE_NOT_FOUND IMAGE_AUTH_IN_USE
    TEMPLATE_NOT_FOUND TEMPLATE_IS_PRIVATE NETWORK_NOT_FOUND NETWORK_IN_USE NETWORK_MAX_LIMIT JOB_NOT_FOUND
    SERVERLESS_ENDPOINT_NOT_FOUND SERVERLESS_WORKER_NOT_FOUND SERVERLESS_PRODUCT_NOT_FOUND
    SERVERLESS_APP_NAME_IS_EXIST LIST_BILL_TOO_FAST INVALID_PRODUCT_CATEGORY INVALID_BILL_CYCLE LIST_BILL_ERROR
    """,
)
STATUS = {
    "UNKNOWN": 500,
    "WALLET_NOT_FOUND": 500,
    "LIST_BILL_ERROR": 500,
    "RATE_LIMIT_EXCEEDED": 429,
    "SEND_CODE_TOO_FAST": 429,
    "LIST_BILL_TOO_FAST": 429,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
}


def refused(status: int, reason: str = "", message: str = "", *, retry_after: str | None = None) -> FaultError:
    body = msgspec.json.encode({"code": status, "reason": reason, "message": message, "metadata": {}})
    return faults.refusal(status, body, retry_after=retry_after, now=NOW)


@pytest.mark.parametrize("reason", DOCUMENTED)
def test_every_documented_reason_is_classified(reason: str) -> None:
    """A reason that fell through to its status would be a guess."""
    fault = refused(STATUS.get(reason, 400), reason, "some words")

    assert reason in faults.OUTCOME_BY_REASON
    assert fault.outcome is faults.OUTCOME_BY_REASON[reason]
    assert isinstance(faults.error_for(fault, CHANGE), CloudError)
    assert isinstance(faults.error_for(fault, READ), CloudError)


def test_the_table_holds_nothing_undocumented_but_the_image_apis_bad_key() -> None:
    """The table is the provider's list, so that the two can be compared."""
    assert set(faults.OUTCOME_BY_REASON) - set(DOCUMENTED) == {"INVALID_API_KEY"}


@pytest.mark.parametrize(
    ("status", "reason", "message", "kind", "code"),
    [
        (400, "INSUFFICIENT_RESOURCE", "", CloudShortageError, "RESOURCE_CONSTRAINTS"),
        (400, "REQUEST", "rpc: INSUFFICIENT_RESOURCE: none left", CloudShortageError, "RESOURCE_CONSTRAINTS"),
        (400, "", "insufficient resource", CloudShortageError, "RESOURCE_CONSTRAINTS"),
        (400, "BALANCE_NOT_ENOUGH", "", CloudRefusedError, "INSUFFICIENT_BALANCE"),
        (400, "CREATE_INSTANCE_LIMIT", "please recharge", CloudRefusedError, "INSUFFICIENT_BALANCE"),
        (400, "RESOURCE_NOT_FOUND", "", CloudRefusedError, "PRODUCT_NOT_FOUND"),
        (400, "TEMPLATE_NOT_FOUND", "", CloudRefusedError, "TEMPLATE_NOT_FOUND"),
        (400, "VALIDATOR_PARAM", "product not fount", CloudRefusedError, "PRODUCT_NOT_FOUND"),
        (400, "SOMETHING_NOT_FOUND", "", CloudRefusedError, "PRODUCT_NOT_FOUND"),
        (404, "", "no route", CloudRefusedError, "PRODUCT_NOT_FOUND"),
        (401, "UNAUTHORIZED", "", CloudRefusedError, "AUTHENTICATION_FAILED"),
        (403, "INVALID_API_KEY", "invalid api-key", CloudRefusedError, "AUTHENTICATION_FAILED"),
        (403, "", "who are you", CloudRefusedError, "AUTHENTICATION_FAILED"),
        (400, "VALIDATOR_PARAM", "invalid imageAuthId: not supported", CloudRefusedError, "REGISTRY_AUTH_NOT_FOUND"),
        (400, "RESOURCE_NOT_FOUND", "image auth not found", CloudRefusedError, "REGISTRY_AUTH_NOT_FOUND"),
        (400, "VALIDATOR_PARAM", "bad gpuNum", CloudRefusedError, "NOVITA_API_ERROR"),
        (400, "IMAGE_NOT_FOUND", "image not found", CloudRefusedError, "NOVITA_API_ERROR"),
        (418, "", "teapot", CloudRefusedError, "NOVITA_API_ERROR"),
        (400, "CONFLICT", "name exists", CloudUnknownError, "NOVITA_API_ERROR"),
        (400, "REQUEST", "invalid state change", CloudUnknownError, "NOVITA_API_ERROR"),
        (400, "OPERATION_LIMIT", "Invalid state change: running", CloudUnknownError, "NOVITA_API_ERROR"),
        (500, "UNKNOWN", "not found", CloudUnknownError, "NOVITA_API_ERROR"),
        (503, "", "try later", CloudUnknownError, "NOVITA_API_ERROR"),
        (302, "", "elsewhere", CloudUnknownError, "NOVITA_API_ERROR"),
        (429, "RATE_LIMIT_EXCEEDED", "", CloudTransientError, "NOVITA_API_ERROR"),
        (429, "", "slow down", CloudTransientError, "NOVITA_API_ERROR"),
    ],
)
def test_a_refused_change_says_what_may_be_done_next(
    status: int, reason: str, message: str, kind: type[CloudError], code: str
) -> None:
    """The class decides whether a create is repeated, moved on or looked for."""
    error = faults.error_for(refused(status, reason, message), CHANGE)

    assert (type(error), error.code) == (kind, code)


def test_a_broken_answer_to_a_read_is_only_worth_another_try() -> None:
    """A read changes nothing, so nothing may have happened."""
    error = faults.error_for(refused(502), READ)

    assert (type(error), error.code) == (CloudTransientError, "NOVITA_API_ERROR")


@pytest.mark.parametrize("status", [403, 404])
@pytest.mark.parametrize(
    "body",
    [
        b"<html>error code: 1010</html>",
        b"404 page not found",
        b'{"message":"404 Route Not Found"}',
        b'{"message":"\xff"}',
        b"{}",
        b"",
    ],
)
def test_the_front_s_own_pages_prove_nothing(status: int, body: bytes) -> None:
    """A proxy's 404 must not read as "the instance is gone", nor its 403 as a bad key."""
    fault = faults.refusal(status, body, retry_after=None, now=NOW)

    assert fault.outcome is CallOutcome.DID_NOT_HAPPEN


@pytest.mark.parametrize("status", [500, 502, 520, 522, 530])
def test_the_front_s_5xx_may_hide_a_deed(status: int) -> None:
    """Cloudflare gives up on a server that is still working."""
    fault = faults.refusal(status, b"<html>", retry_after=None, now=NOW)

    assert type(faults.error_for(fault, CHANGE)) is CloudUnknownError
    assert type(faults.error_for(fault, READ)) is CloudTransientError


def exceptions(kind: type[BaseException] = aiohttp.ClientError) -> Iterator[type[BaseException]]:
    yield kind
    for child in kind.__subclasses__():
        yield from exceptions(child)


BEFORE_SENDING = {
    "ClientConnectorError",
    "ClientConnectorDNSError",
    "ClientProxyConnectionError",
    "UnixClientConnectorError",
    "ClientSSLError",
    "ClientConnectorSSLError",
    "ClientConnectorCertificateError",
    "ServerFingerprintMismatch",
    "ConnectionTimeoutError",
    "InvalidURL",
    "InvalidUrlClientError",
    "InvalidUrlRedirectClientError",
    "NonHttpUrlClientError",
    "NonHttpUrlRedirectClientError",
}


@pytest.mark.parametrize("kind", sorted(set(exceptions()), key=str))
def test_only_what_fails_before_sending_certainly_did_not_happen(kind: type[BaseException]) -> None:
    """Asked of the library itself: an exception it adds must be placed here on purpose, and is unclear until then."""
    error = kind.__new__(kind)
    fault = faults.broken(error)

    expected = CallOutcome.DID_NOT_HAPPEN if kind.__name__ in BEFORE_SENDING else CallOutcome.MAY_HAVE_HAPPENED
    assert fault.outcome is expected
    assert fault.blames_provider


@pytest.mark.parametrize("kind", [TimeoutError, aiohttp.SocketTimeoutError, aiohttp.ConnectionTimeoutError])
def test_a_timeout_is_reported_as_such(kind: type[Exception]) -> None:
    """Callers of the API get 504 for it, not 502."""
    error = faults.error_for(faults.broken(kind()), READ)

    assert error.code == "NOVITA_API_TIMEOUT"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("600", 600.0),
        ("86400", 3600.0),
        (format_datetime(NOW + timedelta(seconds=20), usegmt=True), 20.0),
        (format_datetime(NOW - timedelta(hours=1), usegmt=True), 0.0),
        (format_datetime(NOW + timedelta(days=9), usegmt=True), 3600.0),
        ("nan", None),
    ],
)
def test_retry_after_is_read_in_both_forms_and_bounded(value: str | None, seconds: float | None) -> None:
    """The pause is obeyed, but a wrong clock at either end must not stop everything for a day."""
    assert faults.retry_after_seconds(value, NOW) == seconds


@pytest.mark.parametrize("reason", ["s3cret", "VALIDATOR_PARAM s3cret", "s3cret\nVALIDATOR"])
def test_nothing_the_provider_wrote_reaches_an_error(reason: str) -> None:
    """It may echo what we sent: a password, or the value of a variable."""
    error = faults.error_for(refused(400, reason, "invalid env: s3cret"), CHANGE)

    assert "s3cret" not in f"{error!r} {error.message} {error.details}"


def test_a_refusal_is_never_the_provider_s_fault() -> None:
    """The breaker counts failures, not the answers we dislike."""
    assert not refused(400, "VALIDATOR_PARAM").blames_provider
    assert not refused(429).blames_provider
    assert refused(500).blames_provider
    assert faults.unreadable(200, "garbage").blames_provider
