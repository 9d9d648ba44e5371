"""Answers that are not as documented: fields that are missing, or have a value that the setting `odd_answers` names."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import msgspec

from novitasim.api.call import Reply

_MISSING = "missing"


def applied(rules: str, endpoint: str, answer: Reply) -> Reply:
    """*answer* as *rules* say; one that is not JSON stays as it is."""
    changes = {field: value for call, field, value in _parsed(rules) if call == endpoint}
    if not changes or not answer.content:
        return answer
    return replace(answer, content=msgspec.json.encode(_changed(msgspec.json.decode(answer.content), changes)))


@functools.lru_cache(maxsize=8)
def _parsed(rules: str) -> tuple[tuple[str, str, str], ...]:
    """(call, field, value) of each rule."""
    found: list[tuple[str, str, str]] = []
    for rule in rules.split(";"):
        place, _, value = rule.partition("=")
        call, _, field = place.strip().partition(".")
        found.append((call, field, value.strip()))
    return tuple(found)


def _changed(value: Any, changes: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_changed(inner, changes) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _value(changes[name]) if name in changes else _changed(inner, changes)
        for name, inner in value.items()
        if changes.get(name) != _MISSING
    }


def _value(raw: str) -> Any:
    """The JSON of a rule; what is not JSON is text."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.MsgspecError:
        return raw
