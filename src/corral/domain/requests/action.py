"""The body of a request to start, stop, restart or delete an instance: its fields, and reading them."""

from __future__ import annotations

from dataclasses import replace

from corral.domain.health.checks import HealthCheckSpec
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.requests.fields import URL, Field, Fields, JsonSchema, Problems, body_schema, one_line
from corral.domain.requests.health_check import HEALTH_CHECK, TARGET_PORT, read_with_health_check
from corral.domain.requests.webhook import WEBHOOK_FORMAT, put_format

LONGEST_PROVIDER_NAME = 255
"""Longer than Corral's own names, because an instance may be looked up at the provider by its name there."""

_NAME = Field(
    "instanceName", "INVALID_INSTANCE_NAME", one_line(LONGEST_PROVIDER_NAME), "The instance's name.", "trainer"
)
_WEBHOOK_URL = Field(
    "webhookUrl",
    "INVALID_WEBHOOK_URL",
    URL,
    "Receives the changes that follow, instead of the address in the create request.",
    "https://hooks.example.com/corral",
    secret=True,
)
_FIELDS: Fields = {
    "name": _NAME,
    "webhook_url": _WEBHOOK_URL,
    "webhook_format": WEBHOOK_FORMAT,
    "target_port": TARGET_PORT,
}
_NAMED_FIELDS: Fields = {**_FIELDS, "name": replace(_NAME, required=True)}


def action_body(*, named: bool, starts: bool) -> JsonSchema:
    """The JSON schema of the body; *named* requires the name, *starts* adds the health check."""
    fields = dict(_NAMED_FIELDS if named else _FIELDS)
    if starts:
        return body_schema("Unknown fields are ignored.", fields, healthCheckConfig=HEALTH_CHECK)
    del fields["target_port"]
    return body_schema("Unknown fields are ignored.", fields)


def read_command_options(raw: object, health: HealthCheckSpec, *, named: bool = False) -> CommandOptions | Problems:
    """The options in *raw*, a decoded JSON body, or every problem with it; *health* completes a requested check."""
    values, problems = read_with_health_check(raw, _NAMED_FIELDS if named else _FIELDS, health)
    problems += put_format(raw, values)
    return problems or CommandOptions(**values)
