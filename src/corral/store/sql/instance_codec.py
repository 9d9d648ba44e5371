"""
An instance as one text: its `record`.

It leaves out what is as it is at first, which means nothing happened: of a new instance that is two fifths of the text,
and PostgreSQL reads and writes all of it with every change.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any

import msgspec

from corral.domain.instance import Instance

_FIELDS = sorted(fields(Instance), key=lambda field: field.default is not MISSING)
_Record = msgspec.defstruct(
    "_Record",
    [(field.name, Any) if field.default is MISSING else (field.name, Any, field.default) for field in _FIELDS],
    omit_defaults=True,
)
_in_order = attrgetter(*(field.name for field in _FIELDS))
_decoder = msgspec.json.Decoder(Instance)


def record_of(instance: Instance) -> str:
    """The record of *instance*."""
    return msgspec.json.encode(_Record(*_in_order(instance))).decode()


def instance_of(row: Any) -> Instance:
    """What a row's `record` and `generation` tell; the latter, because a write counts it up beside the record."""
    found = _decoder.decode(row["record"])
    object.__setattr__(found, "generation", row["generation"])  # nobody has it yet; making another takes twice as long
    return found
