"""What a request to start, stop, restart or delete an instance may say: every rule of every field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from corral.domain.errors import FieldProblem
from corral.domain.health.checks import SPEC_RANGES, HealthCheckSpec
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.requests.fields import NO_OBJECT, FieldReader, any_text, one_line, whole_number
from corral.domain.requests.health_check import asked_health_check

LONGEST_PROVIDER_NAME: Final = 255
"""An instance that is found at the provider by its name may have one that Corral would not give."""


def read_command_options(raw: object, health: HealthCheckSpec) -> CommandOptions | tuple[FieldProblem, ...]:
    """What *raw*, a decoded JSON body, says; *health* counts for what it leaves out of a check it asks for."""
    if not isinstance(raw, dict):
        return (FieldProblem(field="(body)", code="VALIDATION_ERROR", message=NO_OBJECT, shows_value=False),)
    form = FieldReader(cast("Mapping[str, object]", raw))
    terms = CommandOptions(
        name=form.take("instanceName", "INVALID_INSTANCE_NAME", one_line(LONGEST_PROVIDER_NAME), None),
        health=form.part(lambda: asked_health_check(form.raw, health), None),
        target_port=form.take("targetPort", "INVALID_HEALTH_CHECK", whole_number(*SPEC_RANGES["target_port"]), None),
        webhook_url=form.take("webhookUrl", "INVALID_WEBHOOK_URL", any_text, None, shows_value=False),
    )
    return tuple(form.problems) or terms
