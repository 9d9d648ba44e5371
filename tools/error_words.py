"""The meaning of every error code, in one sentence; `tools/reference.py` generates a page of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ANSWERS: Final[Mapping[int, Mapping[str, str]]] = {
    400: {
        "VALIDATION_ERROR": "Some fields or parameters are invalid; `validationErrors` lists every one.",
        "INVALID_JSON": "The body cannot be read as JSON.",
        "INVALID_REQUEST": "The request cannot be read as HTTP, has more than 100 headers or 64 KB of them, or repeats "
        "a header that must be unique, such as `Host`.",
        "VOLUME_ELSEWHERE": "The volumes are in different regions, or in none of the regions of the request.",
        "INSTANCE_NOT_STARTABLE": "Only an instance that is `exited`, or `failed` and still at the provider, can be "
        "started; only a running one can be restarted. `details.status` has its status.",
        "INSTANCE_NOT_STOPPABLE": "Only a running or starting instance can be stopped; a stopped one gives 200. "
        "`details.status` has its status.",
        "LEASE_TOO_LONG": "The extension is longer than `CORRAL_MAX_TTL` allows; `details.latest` is the latest end.",
    },
    401: {
        "UNAUTHORIZED": "No key, or an unknown or revoked one. A request that came through a proxy (with "
        "`Forwarded`, `X-Forwarded-*`, `X-Real-IP` or `Via`) needs a key on a loopback address, too."
    },
    402: {
        "BUDGET_EXCEEDED": "A budget does not allow what a create or start would reserve. `details` has the `budget`, "
        "its `limit`, what is `spent` and `reserved` of it, what was `wanted`, and when it begins again (`resetsAt`).",
    },
    403: {
        "FORBIDDEN": "The key's role does not allow this; or, on a loopback address, the `Host` or `Origin` is foreign."
    },
    404: {
        "NOT_FOUND": "There is no such route or object.",
        "INSTANCE_NOT_FOUND": "No instance has this id or name.",
        "OPERATION_NOT_FOUND": "No operation has this id.",
        "JOB_NOT_FOUND": "No job has this id, or it was removed (finished ones are, after a day).",
        "CACHE_NOT_FOUND": "No cache has this name; `GET /api/cache/stats` lists them.",
        "RECONCILIATION_NOT_FOUND": "This day was not compared with the provider's bill.",
        "CACHE_KEY_NOT_FOUND": "This cache does not hold this key.",
        "BUDGET_NOT_FOUND": "No budget has this name.",
        "KEY_NOT_FOUND": "No API key in use has this id or name.",
        "PRODUCT_NOT_FOUND": "The provider sells no product of this name.",
        "NO_OPTIMAL_PRODUCT_ANY_REGION": "The product exists, but no allowed region sells it now at an allowed price. "
        "`retryable` while an offer that fits is only out of stock.",
        "TEMPLATE_NOT_FOUND": "The account has no template with this id.",
        "VOLUME_NOT_FOUND": "The account has no network volume with this id.",
        "REGISTRY_AUTH_NOT_FOUND": "The request or its template names a registry login that the account does not have.",
    },
    405: {"METHOD_NOT_ALLOWED": "The route exists, but not with this method; `Allow` lists those it has."},
    408: {"REQUEST_TIMEOUT": "The body did not arrive in time."},
    409: {
        "STARTUP_OPERATION_IN_PROGRESS": "A create, start or restart is in progress; `details` says which.",
        "OPERATION_IN_PROGRESS": "Another operation is in progress, or the instance was changed at the same time.",
        "NO_CREDENTIALS_YET": "The machine offers no login: it is not created yet, does not run, or is gone.",
        "NO_LOGS_YET": "The machine has no such log: it is not created yet, or is gone.",
        "KEY_NAME_TAKEN": "An API key in use has this name; revoke it first, or choose another name.",
        "NAME_AMBIGUOUS": "Several live instances have this name; the message lists their ids.",
        "NO_LEASE": "The instance has no lease that would end it, so there is nothing to extend.",
        "INSTANCE_NOT_RUNNING": "Only a running instance has a lease to extend. `details.status` has its status.",
        "IDEMPOTENCY_KEY_REUSED": "This `Idempotency-Key` was used for another request in the last 24 hours.",
    },
    413: {"BODY_TOO_LARGE": "The body is larger than is accepted."},
    415: {"UNSUPPORTED_MEDIA_TYPE": "A body must be `application/json`."},
    429: {
        "RATE_LIMIT_EXCEEDED": "Too many requests; `Retry-After` says when to try again.",
        "TOO_MANY_FOLLOWERS": "This process reads 100 logs of machines already; end one, or ask again later.",
    },
    500: {
        "INTERNAL_SERVER_ERROR": "An internal error; the log has details under the same request id.",
        "SECRET_KEY_UNUSABLE": "The request has secrets, and the key file cannot be used to encrypt them; the message "
        "says why. Nothing was recorded.",
        "INVALID_SETTINGS": "A setting is invalid. Printed by the command line at the start.",
    },
    502: {
        "NOVITA_API_ERROR": "The provider refused, or its response cannot be used.",
        "AUTHENTICATION_FAILED": "The provider refused the key (`NOVITA_API_KEY`).",
        "LOGS_UNAVAILABLE": "The log cannot be read where the provider says it is; the message says why.",
        "INVALID_TEMPLATE": "The provider's template lacks an image, or has a bad port or variable; the message says "
        "which.",
    },
    503: {
        "CIRCUIT_BREAKER_OPEN": "The provider keeps failing, so no call was sent.",
        "RESOURCE_CONSTRAINTS": "The provider has no such machine in stock.",
        "DATABASE_UNAVAILABLE": "The database cannot be reached, or was migrated by a newer release than this one.",
        "SHUTTING_DOWN": "This process is stopping and takes no new work.",
        "TOO_MANY_CONNECTIONS": "This process has as many connections, or as many large requests at once, as it can "
        "serve; some must end first.",
    },
    504: {"NOVITA_API_TIMEOUT": "The provider did not respond in time; it may have executed the call."},
}
"""The errors of responses, by status."""

FIELDS: Final[Mapping[str, str]] = {
    "INVALID_INSTANCE_NAME": "1 to 100 of letters, digits, `_` and `-`.",
    "INVALID_PRODUCT_NAME": "1 to 200 characters, as `GET /api/products` lists it.",
    "INVALID_TEMPLATE_ID": "A text that is not empty, or a whole number above zero; required without `image`.",
    "INVALID_IMAGE": "1 to 500 printable characters without spaces.",
    "INVALID_IMAGE_AUTH_ID": "1 to 255 printable characters.",
    "INVALID_COMMAND": "At most 2047 characters, without NUL.",
    "INVALID_ENTRYPOINT": "At most 2047 characters, without NUL.",
    "INVALID_ENV": "At most 100 names, with those of the template, to texts of at most 4095 characters. A name begins "
    "with a letter or `_` and has at most 511 letters, digits, `_`, `.` and `-`.",
    "INVALID_PORTS": 'A list such as `["8080/http", "22/tcp"]`: numbers from 1 to 65535, each once, not 2222 to 2224, '
    "and at most 15 with the template's tools.",
    "INVALID_VOLUMES": "At most 30 objects with `id` and `mount`, an absolute path; each id and each mount once.",
    "INVALID_MIN_CUDA": "A text such as `12.4`.",
    "INVALID_GPU_NUM": "A whole number from 1 to 8.",
    "INVALID_ROOTFS_SIZE": "GB, a whole number from 10 to 1000.",
    "INVALID_REGION": "A region's code, such as `CN-HK-01`; or a list of them.",
    "INVALID_BILLING_MODE": "`spot` or `onDemand`; `spotFallback` is true or false.",
    "INVALID_WEBHOOK_FORMAT": "standard, slack or discord, and only with a webhookUrl.",
    "INVALID_WEBHOOK_URL": "An http or https address, and not a private one unless that is allowed.",
    "INVALID_HEALTH_CHECK": "A number outside its range, or a bad path; the field says which.",
    "INVALID_MAX_PRICE": "USD per GPU-hour, above zero.",
    "INVALID_SECRETS": "Names to texts, as in `env`; at most 100 together, and no name in both.",
    "INVALID_LABELS": "At most 16; keys of a-z, 0-9, `.`, `_`, `/` and `-`, values of one line; 63 characters each.",
    "INVALID_LEASE": "A part of a lease: durations such as `90s`, `30m`, `8h`, `2d` or `1h30m`, percentages, a cron "
    "expression of five fields, a time zone; the message says which rule is broken.",
    "INVALID_WAIT_FOR_CAPACITY": "Seconds, or a text such as 2h, 30m or 1h30m; 0 to 24 hours.",
    "INVALID_KEY_NAME": "1 to 64 letters, digits, `_`, `-`, `.` and `@`.",
    "INVALID_PROTECTED": "`true` or `false`.",
    "INVALID_BUDGET_NAME": "1 to 63 letters, digits, `_`, `-` and `.`; the first is a letter or digit.",
    "INVALID_SCOPE": "`all`, `label:KEY=VALUE` or `key:NAME`.",
    "INVALID_PERIOD": "`hour`, `day`, `month` or `total`.",
    "INVALID_LIMIT": "More than 0 and at most 1,000,000,000 USD.",
    "INVALID_ON_LIMIT": "`refuse`, `stop` or `notify`.",
    "INVALID_THRESHOLDS": "At most 10 numbers above 0, up to 10: parts of the limit.",
    "INVALID_ROLE": "`viewer`, `operator` or `admin`.",
    "INVALID_DAY": "A day such as 2026-11-17 that is over.",
    "INVALID_QUERY": "A parameter of the query or the path has a value that is not accepted.",
    "VALIDATION_ERROR": "Everything without its own code: a body that is not a JSON object, a field of another kind of "
    "request, or an `Idempotency-Key` that has not 1 to 255 printable ASCII characters.",
}
"""The codes of single fields, with what is accepted."""

FAILURES: Final[Mapping[str, str]] = {
    "ACCOUNT_NOT_LISTED": "No complete, correct listing of the provider account could be read since the service "
    "started, or since 105 s after the database was restored.",
    "NOVITA_API_ERROR": "The provider could not be reached, or did not execute the create call, until the deadline; "
    "or it refused a start, stop or delete.",
    "NO_OPTIMAL_PRODUCT_ANY_REGION": "No region listed the product until the deadline, or for `waitForCapacity`.",
    "RESOURCE_CONSTRAINTS": "No offer was available until the deadline, or for `waitForCapacity`; or, for a start, its "
    "host had no GPU free until the deadline.",
    "BUDGET_EXCEEDED": "The offers that were left cost more than was reserved, and until the deadline a budget did not "
    "allow that.",
    "INSUFFICIENT_BALANCE": "The account could not pay, or have more instances, until the deadline.",
    "REGISTRY_AUTH_NOT_FOUND": "The request or its template names a registry login that the account does not have.",
    "INVALID_TEMPLATE": "The template lacks an image, has a bad port or variable, or more than 15 ports and tools.",
    "PRODUCT_NOT_FOUND": "The provider stopped selling the product after the request, until the deadline.",
    "TEMPLATE_NOT_FOUND": "The template was removed after the request.",
    "VOLUME_NOT_FOUND": "The network volume was removed after the request, and not back by the deadline.",
    "VOLUME_ELSEWHERE": "A network volume was replaced by one in another region after the request.",
    "VALIDATION_ERROR": "The template was changed after the request: with it there are too many ports or variables.",
    "PROVISIONING_FAILED": "The provider refused the instance permanently, or reports an error of it (`statusError`).",
    "STARTUP_TIMEOUT": "Not ready by the deadline (create: 20 minutes; start: `INSTANCE_STARTUP_MAX_WAIT_TIME`). It is "
    "still observed, and becomes ready if it starts later.",
    "STARTUP_FAILED": "It stopped before it was ready, or the provider refused to start it. Its disk is kept for some "
    "days.",
    "HEALTH_CHECK_FAILED": "It runs, but an endpoint gave a response that does not change with time.",
    "HEALTH_CHECK_TIMEOUT": "It runs, but its endpoints did not become healthy in time.",
    "SECRET_KEY_UNUSABLE": "Its secrets cannot be opened or encrypted: the key file is missing, another one, or "
    "readable by other users. No machine is created without its secrets.",
    "SECRETS_LOST": "Its secrets are not stored any more, or were changed there; it is not created without them.",
    "SPOT_RECLAIMED": "The provider reclaimed its spot machine. It is `exited`, and its disk is kept for some days.",
    "INSTANCE_VANISHED": "The provider no longer has it, although no delete was requested.",
    "AUTHENTICATION_FAILED": "The provider refused the key until the deadline.",
}
"""Why an instance failed: `error.code` of the instance, of its operation and of its webhook."""
