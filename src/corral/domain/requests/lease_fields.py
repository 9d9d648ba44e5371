"""The fields of a lease, of its extension and of a reported use: their rules, and the published JSON schemas."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, cast

from corral.domain.leases.durations import DURATION_PATTERN, duration_text, read_duration
from corral.domain.leases.lease import DEFAULT_GRACE, EndAction, Signal
from corral.domain.leases.schedule import LONGEST_EXPRESSION, expression_problem, is_timezone
from corral.domain.requests.fields import (
    Field,
    Fields,
    InvalidFieldError,
    JsonSchema,
    Rule,
    any_number,
    any_text,
    body_schema,
)

INVALID_LEASE: Final = "INVALID_LEASE"
_MINUTE: Final = timedelta(minutes=1)
_DAY: Final = timedelta(days=1)
_LONGEST_ZONE: Final = 64


def _duration(least: timedelta, most: timedelta) -> Rule:
    def read(value: object) -> timedelta:
        try:
            duration = read_duration(value)
        except ValueError as error:
            raise InvalidFieldError(str(error)) from None
        if not least <= duration <= most:
            raise InvalidFieldError(f"must be {duration_text(least)} to {duration_text(most)}")
        return duration

    return Rule(read, {"type": "string", "pattern": f"^{DURATION_PATTERN}$", "minLength": 2})


def _percent(value: object) -> float:
    number = any_number(value)
    if not 0 < number <= 100:  # noqa: PLR2004  percent
        raise InvalidFieldError("must be more than 0 and at most 100 percent")
    return float(number)


def _signals(value: object) -> frozenset[Signal]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    named = [each for each in listed if isinstance(each, str) and each in set(Signal)]
    if not named or len(named) != len(listed) or len(set(named)) != len(named):
        raise InvalidFieldError(f"must be a list of at least one of {', '.join(Signal)}, each at most once")
    return frozenset(map(Signal, named))


def _on_end(value: object) -> EndAction:
    if not isinstance(value, str) or value not in set(EndAction):
        raise InvalidFieldError(f"must be one of {', '.join(EndAction)}")
    return EndAction(value)


def _cron(value: object) -> str:
    expression = " ".join(any_text(value).split())
    wrong = expression_problem(expression)
    if wrong is not None:
        raise InvalidFieldError(wrong)
    return expression


def _zone(value: object) -> str:
    if not isinstance(value, str) or not is_timezone(value):
        raise InvalidFieldError("must be a time zone of the IANA database, such as Europe/Berlin")
    return value


def _instant(value: object) -> datetime:
    try:
        found = datetime.fromisoformat(any_text(value).strip())
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    except (InvalidFieldError, ValueError, OverflowError):
        pass
    raise InvalidFieldError("must be a time in ISO 8601 with a zone, such as 2026-11-17T18:00:00Z")


def _nullable(rule: Rule) -> Rule:
    return Rule(rule.read, {**rule.schema, "type": [rule.schema["type"], "null"]})


_PERCENT = Rule(_percent, {"type": "number", "exclusiveMinimum": 0, "maximum": 100})
_CRON = _nullable(Rule(_cron, {"type": "string", "maxLength": LONGEST_EXPRESSION}))
_INSTANT = Rule(_instant, {"type": "string", "format": "date-time"})
LEASE_FIELDS: Fields = {
    "max_duration": Field(
        "maxDuration",
        INVALID_LEASE,
        _nullable(_duration(_MINUTE, 365 * _DAY)),
        "The longest time it runs, from when it is ready: 1m to 365d. Left out: CORRAL_DEFAULT_TTL; null: no limit but "
        "CORRAL_MAX_TTL.",
        "8h",
    ),
    "on_end": Field(
        "onEnd",
        INVALID_LEASE,
        Rule(_on_end, {"type": "string", "enum": list(EndAction), "default": EndAction.STOP.value}),
        "What the end of the maximum duration or of the idle time does; a schedule always stops.",
        "stop",
    ),
    "grace": Field(
        "grace",
        INVALID_LEASE,
        _duration(timedelta(0), _DAY),
        f"The least time between the notice and the end: 0s to 24h; {duration_text(DEFAULT_GRACE)} when left out.",
        "10m",
    ),
}
IDLE_FIELDS: Fields = {
    "after": Field(
        "after", INVALID_LEASE, _duration(_MINUTE, 30 * _DAY), "How long it must be idle: 1m to 30d.", "30m"
    ),
    "gpu_below": Field(
        "gpuBelow", INVALID_LEASE, _PERCENT, "Percent of the busiest GPU; at the limit it is active.", 5
    ),
    "cpu_below": Field("cpuBelow", INVALID_LEASE, _PERCENT, "Percent of the CPU; at the limit it is active.", 10),
    "signals": Field(
        "signals",
        INVALID_LEASE,
        Rule(
            _signals,
            {
                "type": "array",
                "items": {"type": "string", "enum": list(Signal)},
                "minItems": 1,
                "maxItems": len(Signal),
                "uniqueItems": True,
            },
        ),
        "What shows that it is used; all of them when left out. What is not known counts as use.",
        ["gpu", "cpu", "lastUsed"],
    ),
}
SCHEDULE_FIELDS: Fields = {
    "stop": Field("stop", INVALID_LEASE, _CRON, "When to stop it: cron with five fields.", "0 20 * * 1-5"),
    "start": Field("start", INVALID_LEASE, _CRON, "When to start it again, if its lease stopped it.", "0 8 * * 1-5"),
    "timezone": Field(
        "timezone",
        INVALID_LEASE,
        Rule(_zone, {"type": "string", "maxLength": _LONGEST_ZONE, "default": "UTC"}),
        "A zone of the IANA database.",
        "Europe/Berlin",
    ),
}
EXTEND_FIELDS: Fields = {
    "by": Field(
        "by", INVALID_LEASE, _duration(_MINUTE, 365 * _DAY), "Longer than its present end by this: 1m to 365d.", "2h"
    ),
    "until": Field(
        "until",
        INVALID_LEASE,
        _INSTANT,
        "Until this time, whatever its present end is; not before the end of a present extension.",
        "2026-11-17T18:00:00Z",
    ),
}
LAST_USED_FIELDS: Fields = {
    "at": Field("lastUsedAt", INVALID_LEASE, _INSTANT, "Left out, or in the future: now.", "2026-11-17T18:00:00Z")
}


def _object(description: str, fields: Fields, **parts: JsonSchema) -> JsonSchema:
    schema = body_schema(description, fields, None, **parts)
    return {**schema, "type": ["object", "null"], "additionalProperties": False}


LEASE: Final = _object(
    "How long it may run. Null, or without any part and default: without limit but CORRAL_MAX_TTL.",
    LEASE_FIELDS,
    idle=_object(
        "When it counts as idle; CORRAL_DEFAULT_IDLE when left out, never if null. `after` is required unless that is "
        "set or it has a rule already.",
        IDLE_FIELDS,
    ),
    schedule=_object("When it is stopped and started; `stop`, `start` or both.", SCHEDULE_FIELDS),
)
LEASE_CHANGE_BODY: Final = {
    **LEASE,
    "type": "object",
    "description": "A merge patch: what is left out stays as it is, and null removes it.",
}
EXTEND_BODY: Final = {
    **body_schema("Either `by` or `until`.", EXTEND_FIELDS),
    "examples": [{"by": "2h"}],
    "oneOf": [{"required": ["by"]}, {"required": ["until"]}],
}
LAST_USED_BODY: Final = body_schema("May be left out.", LAST_USED_FIELDS)
