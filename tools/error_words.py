"""What every error code means, in one sentence each; `tools/reference.py` makes a page of it, a test keeps it whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ANSWERS: Final[Mapping[int, Mapping[str, str]]] = {
    400: {
        "VALIDATION_ERROR": "Some fields or parameters are wrong; `validationErrors` lists every one of them.",
        "INVALID_JSON": "The body cannot be read as JSON.",
        "INVALID_REQUEST": "The request cannot be read as HTTP, has more than 100 headers or 64 KB of them, or repeats "
        "a header that must be unique, such as `Host`.",
        "INSTANCE_NOT_STARTABLE": "Only one that is `exited`, or `failed` and still there, can be started; only one "
        "that runs can be restarted. `details.status` says what it is.",
        "INSTANCE_NOT_STOPPABLE": "Only one that is up or coming up can be stopped; one that is stopped already is "
        "a 200. `details.status` says what it is.",
    },
    401: {
        "UNAUTHORIZED": "No key, or one that is not known, or was revoked. A request that a proxy passed on (with "
        "`Forwarded`, `X-Forwarded-*`, `X-Real-IP` or `Via`) needs a key on a loopback address, too."
    },
    403: {"FORBIDDEN": "The key's role may not do this; or, on a loopback address, the `Host` or `Origin` is foreign."},
    404: {
        "NOT_FOUND": "There is no such route, or no such thing.",
        "INSTANCE_NOT_FOUND": "No instance has this id or name.",
        "OPERATION_NOT_FOUND": "No operation has this id.",
        "JOB_NOT_FOUND": "No job has this id, or it was removed (finished ones are, after a day).",
        "CACHE_NOT_FOUND": "No cache has this name; `GET /api/cache/stats` lists them.",
        "CACHE_KEY_NOT_FOUND": "This cache does not hold this key.",
        "PRODUCT_NOT_FOUND": "The provider sells no product of this name.",
        "NO_OPTIMAL_PRODUCT_ANY_REGION": "The product exists, but no allowed region sells it now at an allowed price.",
        "TEMPLATE_NOT_FOUND": "The account has no template with this id.",
        "REGISTRY_AUTH_NOT_FOUND": "The template names a registry login that the account does not have.",
    },
    405: {"METHOD_NOT_ALLOWED": "The route exists, but not with this method; `Allow` lists those it has."},
    408: {"REQUEST_TIMEOUT": "The body did not arrive in time."},
    409: {
        "STARTUP_OPERATION_IN_PROGRESS": "A create, start or restart is under way; `details` says which.",
        "OPERATION_IN_PROGRESS": "Another operation is under way, or another request changed the instance just now.",
        "NAME_AMBIGUOUS": "Several live instances have this name; the message lists their ids.",
        "IDEMPOTENCY_KEY_REUSED": "This `Idempotency-Key` was used for another request in the last 24 hours.",
    },
    413: {"BODY_TOO_LARGE": "The body is larger than is accepted."},
    415: {"UNSUPPORTED_MEDIA_TYPE": "A body must be `application/json`."},
    429: {"RATE_LIMIT_EXCEEDED": "Too many requests; `Retry-After` says when to come back."},
    500: {
        "INTERNAL_SERVER_ERROR": "A mistake of ours; the log has more under the same request id.",
        "INVALID_SETTINGS": "A setting is wrong. Reported by the command line, before anything is served.",
    },
    502: {
        "NOVITA_API_ERROR": "The provider refused, or answered something that cannot be used.",
        "AUTHENTICATION_FAILED": "The provider refused the key (`NOVITA_API_KEY`).",
        "INVALID_TEMPLATE": "The provider's template lacks an image, or has a bad port or variable; the message says "
        "which.",
    },
    503: {
        "CIRCUIT_BREAKER_OPEN": "The provider keeps failing, so it was not called.",
        "RESOURCE_CONSTRAINTS": "The provider has no such machine left at this time.",
        "DATABASE_UNAVAILABLE": "The database cannot be reached, or was migrated by a newer release than this one.",
        "SHUTTING_DOWN": "This process is stopping and takes no new work.",
        "TOO_MANY_CONNECTIONS": "This process has as many connections, or as many large requests at once, as it can "
        "take; some must end first.",
    },
    504: {"NOVITA_API_TIMEOUT": "The provider did not answer in time; it may have done what was asked."},
}
"""What a request may be answered with, by status."""

FIELDS: Final[Mapping[str, str]] = {
    "INVALID_INSTANCE_NAME": "1 to 100 of letters, digits, `_` and `-`.",
    "INVALID_PRODUCT_NAME": "1 to 200 characters, as `GET /api/products` lists it.",
    "INVALID_TEMPLATE_ID": "A text that is not empty, or a whole number above zero.",
    "INVALID_GPU_NUM": "A whole number from 1 to 8.",
    "INVALID_ROOTFS_SIZE": "GB, a whole number from 10 to 1000.",
    "INVALID_REGION": "A region's code, such as `CN-HK-01`; or a list of them.",
    "INVALID_BILLING_MODE": "`spot` or `onDemand`; `spotFallback` is true or false.",
    "INVALID_WEBHOOK_URL": "An http or https address, and not a private one unless that is allowed.",
    "INVALID_HEALTH_CHECK": "A number outside its range, or a bad path; the field says which.",
    "INVALID_MAX_PRICE": "USD per GPU-hour, above zero.",
    "INVALID_WAIT_FOR_CAPACITY": "Seconds, or a text such as 2h, 30m or 1h30m; 0 to 24 hours.",
    "INVALID_QUERY": "A parameter of the query or the path has a value that is not accepted.",
    "VALIDATION_ERROR": "What has no code of its own: a body that is not a JSON object, a field of another kind of "
    "request, or an `Idempotency-Key` that has not 1 to 255 printable ASCII characters.",
}
"""The codes of single fields, with what is accepted."""

FAILURES: Final[Mapping[str, str]] = {
    "ACCOUNT_NOT_LISTED": "No complete, right listing of the provider account could be read since the service "
    "started, or since 105 s after the database was restored.",
    "NOVITA_API_ERROR": "The provider could not be asked, or did not carry out the create call, until the deadline; "
    "or it refused a start, stop or delete.",
    "NO_OPTIMAL_PRODUCT_ANY_REGION": "No region listed the product until the deadline, or for `waitForCapacity`.",
    "RESOURCE_CONSTRAINTS": "No offer could be had until the deadline, or for `waitForCapacity`; or, of a start, its "
    "host has no GPU free until the deadline.",
    "INSUFFICIENT_BALANCE": "The account could not pay, or have more instances, until the deadline.",
    "REGISTRY_AUTH_NOT_FOUND": "The template names a registry login that the account does not have.",
    "INVALID_TEMPLATE": "The template lacks an image, has a bad port or variable, or more than 15 ports and tools.",
    "PRODUCT_NOT_FOUND": "The provider stopped selling the product after the request, until the deadline.",
    "TEMPLATE_NOT_FOUND": "The template was removed after the request.",
    "PROVISIONING_FAILED": "The provider refused the instance for good, or reports an error of it (`statusError`).",
    "STARTUP_TIMEOUT": "Not ready by the deadline (create: 20 minutes; start: `INSTANCE_STARTUP_MAX_WAIT_TIME`). It is "
    "still watched, and becomes ready if it comes up later.",
    "STARTUP_FAILED": "It stopped before it was ready, or the provider refused to start it. Its disk is kept.",
    "HEALTH_CHECK_FAILED": "It runs, but an endpoint gave an answer that time does not heal.",
    "HEALTH_CHECK_TIMEOUT": "It runs, but its endpoints did not become healthy in time.",
    "SPOT_RECLAIMED": "The provider took its spot machine back. It is `exited`, and its disk is kept for some days.",
    "INSTANCE_VANISHED": "The provider no longer has it, although no delete was requested.",
    "AUTHENTICATION_FAILED": "The provider refused the key until the deadline.",
}
"""Why an instance failed: `error.code` of the instance, of its operation and of its webhook."""
