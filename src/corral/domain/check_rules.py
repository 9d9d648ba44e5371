"""How a request may say that an instance is to be checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from corral.domain.errors import FieldProblem
from corral.domain.forms import NO_OBJECT, Form, WrongError, whole_number
from corral.domain.health import SPEC_RANGES, HealthCheckSpec

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
    form = Form(cast("Mapping[str, object]", raw), prefix=f"{name}.")
    numbers: dict[str, Any] = {
        attribute: form.take(word, code, whole_number(*SPEC_RANGES[attribute]), getattr(defaults, attribute))
        for word, attribute in _HEALTH_FIELDS.items()
    }
    spec = HealthCheckSpec(**numbers, path=form.take("path", code, _path, defaults.path, shows_value=False))
    return tuple(form.problems) or spec


def _path(value: object) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        raise WrongError("must begin with / and have at most 1000 characters, without spaces or backslashes")
    return value
