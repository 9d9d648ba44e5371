"""How a request may say that an instance is to be checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from corral.domain.errors import FieldProblem
from corral.domain.health.checks import SPEC_RANGES, HealthCheckSpec
from corral.domain.requests.fields import NO_OBJECT, FieldReader, InvalidFieldError, whole_number

NAMES = ("healthCheck", "healthCheckConfig")
"""Requests may use either: the original system used one to create and the other to start."""

_PATH = re.compile(r"/[!-\[\]-~]{0,999}")
_HEALTH_FIELDS = {
    "timeoutMs": "timeout_ms",
    "retryAttempts": "retry_attempts",
    "retryDelayMs": "retry_delay_ms",
    "maxWaitTimeMs": "max_wait_ms",
    "targetPort": "target_port",
}


def read_health_check(
    raw: object, defaults: HealthCheckSpec, *, name: str = "healthCheck"
) -> HealthCheckSpec | tuple[FieldProblem, ...]:
    """How an instance is to be checked, where *raw* is what the request says of it under *name*."""
    code = "INVALID_HEALTH_CHECK"
    if raw is None:
        return defaults
    if not isinstance(raw, dict):
        return (FieldProblem(field=name, code=code, message=NO_OBJECT, shows_value=False),)
    form = FieldReader(cast("Mapping[str, object]", raw), prefix=f"{name}.")
    numbers: dict[str, Any] = {
        attribute: form.take(word, code, whole_number(*SPEC_RANGES[attribute]), getattr(defaults, attribute))
        for word, attribute in _HEALTH_FIELDS.items()
    }
    spec = HealthCheckSpec(**numbers, path=form.take("path", code, _path, defaults.path, shows_value=False))
    return tuple(form.problems) or spec


def asked_health_check(
    raw: Mapping[str, object], defaults: HealthCheckSpec
) -> HealthCheckSpec | tuple[FieldProblem, ...] | None:
    """How a request wants an instance to be checked, under either name of the field; None when it does not say."""
    given = [name for name in NAMES if raw.get(name) is not None]
    if not given:
        return None
    if len(given) > 1:
        message = f"send {NAMES[0]} or {NAMES[1]}, not both: they are two names of one field"
        return (FieldProblem(field=NAMES[1], code="INVALID_HEALTH_CHECK", message=message, shows_value=False),)
    return read_health_check(raw[given[0]], defaults, name=given[0])


def _path(value: object) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        raise InvalidFieldError("must begin with / and have at most 1000 characters, without spaces or backslashes")
    return value
