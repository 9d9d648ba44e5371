"""
The errors of each route and their shape, for the OpenAPI document.

Most follow from the route's access level, body and path parameters; the others are in `OF_ROUTE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

EVERYWHERE: Final[Mapping[int, tuple[str, ...]]] = {
    403: ("FORBIDDEN",),
    429: ("RATE_LIMIT_EXCEEDED",),
    500: ("INTERNAL_SERVER_ERROR",),
    503: ("SHUTTING_DOWN", "TOO_MANY_CONNECTIONS"),
}
KEYED: Final[Mapping[int, tuple[str, ...]]] = {401: ("UNAUTHORIZED",), 503: ("DATABASE_UNAVAILABLE",)}
WITH_PARAMETERS: Final[Mapping[int, tuple[str, ...]]] = {400: ("VALIDATION_ERROR",)}
CHANGING: Final[Mapping[int, tuple[str, ...]]] = {
    400: ("VALIDATION_ERROR", "INVALID_JSON"),
    408: ("REQUEST_TIMEOUT",),
    409: ("IDEMPOTENCY_KEY_REUSED", "OPERATION_IN_PROGRESS"),
    413: ("BODY_TOO_LARGE",),
    415: ("UNSUPPORTED_MEDIA_TYPE",),
}
PROVIDER: Final[Mapping[int, tuple[str, ...]]] = {
    502: ("NOVITA_API_ERROR", "AUTHENTICATION_FAILED"),
    503: ("CIRCUIT_BREAKER_OPEN",),
    504: ("NOVITA_API_TIMEOUT",),
}
OF_PARAMETER: Final[Mapping[str, str]] = {
    "instance_id": "INSTANCE_NOT_FOUND",
    "operation_id": "OPERATION_NOT_FOUND",
    "job_id": "JOB_NOT_FOUND",
    "delivery_id": "NOT_FOUND",
    "template_id": "TEMPLATE_NOT_FOUND",
    "name": "CACHE_NOT_FOUND",
    "key": "CACHE_KEY_NOT_FOUND",
    "key_id": "KEY_NOT_FOUND",
    "budget_name": "BUDGET_NOT_FOUND",
}
RESTART: Final[Mapping[int, tuple[str, ...]]] = {
    400: ("INSTANCE_NOT_STARTABLE",),
    409: ("STARTUP_OPERATION_IN_PROGRESS",),
}
START: Final[Mapping[int, tuple[str, ...]]] = {**RESTART, 402: ("BUDGET_EXCEEDED",)}
NAMED: Final[Mapping[int, tuple[str, ...]]] = {
    404: ("INSTANCE_NOT_FOUND",),
    409: ("NAME_AMBIGUOUS", "STARTUP_OPERATION_IN_PROGRESS"),
}
LOGS: Final[Mapping[int, tuple[str, ...]]] = {
    409: ("NO_LOGS_YET",),
    429: ("TOO_MANY_FOLLOWERS",),
    502: ("LOGS_UNAVAILABLE",),
}
OF_ROUTE: Final[Mapping[tuple[str, str], Mapping[int, tuple[str, ...]]]] = {
    ("post", "/api/instances"): {
        400: ("VOLUME_ELSEWHERE",),
        402: ("BUDGET_EXCEEDED",),
        404: (
            "PRODUCT_NOT_FOUND",
            "NO_OPTIMAL_PRODUCT_ANY_REGION",
            "TEMPLATE_NOT_FOUND",
            "VOLUME_NOT_FOUND",
            "REGISTRY_AUTH_NOT_FOUND",
        ),
        500: ("SECRET_KEY_UNUSABLE",),
        502: ("NOVITA_API_ERROR", "AUTHENTICATION_FAILED", "INVALID_TEMPLATE"),
        503: ("CIRCUIT_BREAKER_OPEN", "RESOURCE_CONSTRAINTS"),
        504: ("NOVITA_API_TIMEOUT",),
    },
    ("get", "/api/instances"): {404: ("INSTANCE_NOT_FOUND",)},
    ("get", "/api/products/optimal"): {404: ("PRODUCT_NOT_FOUND", "NO_OPTIMAL_PRODUCT_ANY_REGION")},
    ("get", "/api/templates/{template_id}"): {502: ("INVALID_TEMPLATE",)},
    ("post", "/api/instances/{instance_id}/start"): START,
    ("post", "/api/instances/{instance_id}/restart"): RESTART,
    ("post", "/api/instances/{instance_id}/stop"): {400: ("INSTANCE_NOT_STOPPABLE",)},
    ("post", "/api/instances/start"): {**START, **NAMED},
    ("post", "/api/instances/stop"): {400: ("INSTANCE_NOT_STOPPABLE",), **NAMED},
    ("post", "/api/instances/delete"): NAMED,
    ("post", "/api/instances/{instance_id}/adopt"): {**PROVIDER, 404: ("INSTANCE_NOT_FOUND",)},
    ("post", "/api/instances/{instance_id}/extend"): {
        400: ("LEASE_TOO_LONG",),
        409: ("NO_LEASE", "INSTANCE_NOT_RUNNING"),
    },
    ("patch", "/api/instances/{instance_id}/lease"): {409: ("INSTANCE_NOT_RUNNING",)},
    ("post", "/api/instances/sync"): PROVIDER,
    ("get", "/api/instances/{instance_id}/credentials"): {409: ("NO_CREDENTIALS_YET",)},
    ("get", "/api/instances/{instance_id}/logs"): LOGS,
    ("get", "/api/instances/{instance_id}/image-pull"): LOGS,
    ("get", "/api/instances/comprehensive"): {404: ("NOT_FOUND",)},
    ("get", "/api/costs/reconciliations"): {404: ("RECONCILIATION_NOT_FOUND",)},
    ("post", "/api/costs/reconciliations"): PROVIDER,
    ("post", "/api/keys"): {409: ("KEY_NAME_TAKEN",)},
    ("post", "/api/cache/clear"): {404: ("CACHE_NOT_FOUND",)},
}

_MEANINGS: Final[Mapping[int, str]] = {
    400: "The request must change; `validationErrors` lists every invalid field.",
    401: "No key, or an unknown one.",
    402: "A budget does not allow it; `details` says which, and how much of it is used.",
    403: "The caller is not allowed to do this, or not from this address.",
    404: "What the request names does not exist.",
    408: "The body did not arrive in time.",
    409: "Another operation is in progress, what is asked for is not there yet, or the key was used before.",
    413: "The body is too large.",
    415: "The body must be `application/json`.",
    429: "Too many requests; `Retry-After` says when to try again.",
    500: "An internal error; the log has details under the same request id.",
    502: "The provider's response cannot be used.",
    503: "Temporarily unavailable; `Retry-After` says when to try again.",
    504: "The provider did not respond in time.",
}

_REF: Final = "#/components/schemas/"


def _field(kind: str | None, description: str, *examples: object, **more: object) -> dict[str, Any]:
    typed = {} if kind is None else {"type": kind}
    return {**typed, "description": description, **({"examples": [*examples]} if examples else {}), **more}


def _object(title: str, description: str, required: str, **properties: object) -> dict[str, Any]:
    shape = {"required": required.split(), "properties": properties}
    return {"type": "object", "title": title, "description": description, **shape}


ERROR_SCHEMAS: Final[Mapping[str, Any]] = {
    "Problem": _object(
        "Problem",
        "Every error has this shape.",
        "error",
        error={"$ref": f"{_REF}ProblemDetails", "description": "What went wrong."},
    ),
    "ProblemDetails": _object(
        "ProblemDetails",
        "What went wrong, and whether a retry may succeed.",
        "code message timestamp requestId correlationId retryable",
        code=_field("string", "For programs; stable.", "VALIDATION_ERROR"),
        message=_field("string", "For people.", "invalid request: gpuNum"),
        timestamp=_field("string", "When.", "2030-01-01T00:00:00.000Z"),
        requestId=_field("string", "Of this request, also in the log.", "req_5f1c0a9b3d7e"),
        correlationId=_field("string", "As sent by the caller, or the request's id.", "req_5f1c0a9b3d7e"),
        retryable=_field("boolean", "Whether the same request may succeed later.", False),
        retryAfter=_field("integer", "Seconds until then, also as the header `Retry-After`.", 12),
        nextStep=_field(
            "string",
            "What can be done about it, for people; left out where the message says it all.",
            "Top up the account at the provider, then create it again.",
        ),
        validationErrors=_field("array", "Every invalid field.", items={"$ref": f"{_REF}FieldProblem"}),
        details=_field("object", "More about the error.", {"instanceId": "inst_8k3v1q5t0c"}, additionalProperties=True),
    ),
    "FieldProblem": _object(
        "FieldProblem",
        "One invalid field.",
        "field code message",
        field=_field("string", "Its name in the request.", "gpuNum"),
        code=_field("string", "For programs.", "INVALID_GPU_NUM"),
        message=_field("string", "For people.", "must be between 1 and 8"),
        value=_field(None, "The value sent, unless it may be secret.", 9),
    ),
}


def failures(path: str, method: str, operation: Mapping[str, Any], *, is_open: bool) -> dict[str, Any]:
    """The error responses of one operation, by status."""
    codes: dict[int, list[str]] = {}
    for table in _tables(path, method, operation, is_open=is_open):
        for status, words in table.items():
            codes.setdefault(status, []).extend(w for w in words if w not in codes.get(status, ()))
    return {str(status): _answer(status, words) for status, words in sorted(codes.items())}


def examples() -> dict[str, Any]:
    """One response for each error code of any route."""
    tables = [EVERYWHERE, KEYED, CHANGING, PROVIDER, {404: tuple(OF_PARAMETER.values())}, *OF_ROUTE.values()]
    codes = {code: status for table in tables for status, words in table.items() for code in words}
    return {code: {"value": _sample(status, code)} for code, status in sorted(codes.items())}


def _tables(
    path: str, method: str, operation: Mapping[str, Any], *, is_open: bool
) -> list[Mapping[int, tuple[str, ...]]]:
    named = [p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"]
    asked = [p for p in operation.get("parameters", ()) if p["in"] in {"query", "header"}]
    tables = [EVERYWHERE]
    tables += [] if is_open else [KEYED]
    tables += [WITH_PARAMETERS] if asked else []
    tables += [CHANGING] if method != "get" else []
    tables += [{404: (OF_PARAMETER[name],)} for name in named if name in OF_PARAMETER]
    tables += [PROVIDER] if {"catalog", "machines"} & {*operation.get("tags", ())} else []
    return [*tables, OF_ROUTE.get((method, path), {})]


def _answer(status: int, codes: list[str]) -> dict[str, Any]:
    listed = ", ".join(f"`{code}`" for code in codes)
    return {
        "description": f"{_MEANINGS[status]} Codes: {listed}.",
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "examples": {code: {"$ref": f"#/components/examples/{code}"} for code in codes},
            }
        },
    }


def _sample(status: int, code: str) -> dict[str, Any]:
    error: dict[str, Any] = {
        "code": code,
        "message": HTTPStatus(status).phrase,
        "timestamp": "2030-01-01T00:00:00.000Z",
        "requestId": "req_5f1c0a9b3d7e",
        "correlationId": "req_5f1c0a9b3d7e",
        "retryable": status in {429, 503, 504},
    }
    if code == "VALIDATION_ERROR":
        error["validationErrors"] = [
            {"field": "gpuNum", "code": "INVALID_GPU_NUM", "message": "must be between 1 and 8", "value": 9}
        ]
    return {"error": error}
