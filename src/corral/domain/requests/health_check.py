"""The health check that every body may ask for: its fields, and reading a body that has one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from corral.domain.health.checks import HealthCheckSpec
from corral.domain.requests.fields import (
    Field,
    Fields,
    InvalidFieldError,
    Problems,
    Rule,
    body_schema,
    problem,
    read_fields,
    whole_number,
)

NAMES = ("healthCheck", "healthCheckConfig")
"""Requests may use either: the original system used one to create and the other to start."""

_CODE = "INVALID_HEALTH_CHECK"
_PATH = re.compile(r"/[!-\[\]-~]{0,999}")


def _path(value: object) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        raise InvalidFieldError("must begin with / and have at most 1000 characters, without spaces or backslashes")
    return value


_PATH_RULE = Rule(_path, {"type": "string", "minLength": 1, "maxLength": 1000, "pattern": "^/", "default": "/"})
TARGET_PORT = Field("targetPort", _CODE, whole_number(1, 65_535), "Check this port alone.", 8888)
_FIELDS: Fields = {
    "timeout_ms": Field("timeoutMs", _CODE, whole_number(1000, 300_000), "Milliseconds one check may take.", 10_000),
    "retry_attempts": Field("retryAttempts", _CODE, whole_number(0, 10), "Repetitions within a round.", 3),
    "retry_delay_ms": Field(
        "retryDelayMs", _CODE, whole_number(100, 30_000), "Milliseconds before the first; doubles with each.", 2000
    ),
    "max_wait_ms": Field(
        "maxWaitTimeMs", _CODE, whole_number(30_000, 1_800_000), "Milliseconds until it counts as unhealthy.", 300_000
    ),
    "target_port": TARGET_PORT,
    "path": Field("path", _CODE, _PATH_RULE, "Path of the GET; `/` when left out.", "/", secret=True),
}

HEALTH_CHECK = body_schema(
    "How a running instance is checked before it becomes ready; settings give what is left out. In every request the "
    "field may be called `healthCheck` or `healthCheckConfig`, but not both at once.",
    _FIELDS,
)


def read_with_health_check(raw: object, fields: Fields, defaults: HealthCheckSpec) -> tuple[dict[str, Any], Problems]:
    """As `read_fields`, with the requested health check, completed by *defaults*, as `health` if there is one."""
    values, problems = read_fields(raw, fields)
    body = cast("Mapping[str, object]", raw) if isinstance(raw, dict) else {}
    given = [name for name in NAMES if body.get(name) is not None]
    if len(given) > 1:
        message = f"send {NAMES[0]} or {NAMES[1]}, not both: they are two names of one field"
        return values, (*problems, problem(NAMES[1], _CODE, message))
    for name in given:
        health = read_health_check(body[name], defaults, name=name)
        if isinstance(health, tuple):
            return values, problems + health
        values["health"] = health
    return values, problems


def read_health_check(
    raw: object, defaults: HealthCheckSpec, *, name: str = "healthCheck"
) -> HealthCheckSpec | Problems:
    """The check that *raw*, the value of the field *name*, describes; or every problem with it."""
    given, problems = read_fields(raw, _FIELDS, name=name, code=_CODE)
    return problems or replace(defaults, **given)
