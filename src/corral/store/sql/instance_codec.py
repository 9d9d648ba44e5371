"""
An instance as one JSON text: the `record` of its row.

The stored record is flat, and its names are those of the first release: processes of two releases read and write the
same rows during an upgrade, backups outlive releases, and some SQL reads single keys. `_STORED` maps each field of a
group of `Instance` to its stored name. A field that has its default is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from datetime import datetime
from itertools import chain
from operator import attrgetter
from typing import Any, Final, get_type_hints

import msgspec

from corral.domain.budgets.reservation import Reservation
from corral.domain.errors import Failure
from corral.domain.instance import CreateAttempt, CreateWait, Instance, Observation, PendingAction
from corral.domain.leases.lease import LeaseState

_STORED: Final[dict[str, str]] = {
    "request": "order",
    "access": "ways",
    "create.number": "attempt",
    "create.sent_at": "create_sent_at",
    "create.ended": "create_ended",
    "create.doubted_at": "doubted_at",
    "create.listings_without": "listings_since_sent",
    "observation.sighting": "sighting",
    "observation.provider_status": "word",
    "observation.sighted_at": "sighted_at",
    "observation.booted_at": "booted_at",
    "observation.failure": "provider_failure",
    "observation.spot": "spot",
    "observation.data_kept_until": "data_kept_until",
    "observation.unlisted_since": "missing_since",
    "observation.absence_checks": "missing_checks",
    "observation.absence_checked_at": "missing_checked_at",
    "observation.lookup_failed_since": "unfound_since",
    "observation.found_unlisted_since": "unlisted_since",
    "observation.found_unlisted_at": "unlisted_found_at",
    "observation.meter": "meter",
    "pending.action": "owed",
    "pending.attempts": "asks",
    "pending.sent_at": "acted_at",
    "pending.ended_at": "answered_at",
    "pending.accepted": "accepted",
    "pending.sent_on": "acted_on",
    "pending.refused": "refused",
}
_GROUPS: Final[dict[str, type]] = {"create": CreateAttempt, "observation": Observation, "pending": PendingAction}


def _stored_fields(owner: type, prefix: str = "") -> Iterator[tuple[str, str, Any, Any]]:
    """Of each field below *owner*, but its groups: the path to it, its stored name, its type and its default."""
    hints = get_type_hints(owner)
    for field in fields(owner):
        path = prefix + field.name
        if field.name not in {*_GROUPS, "waiting"}:
            yield path, _STORED.get(path, path), hints[field.name], field.default


_OWN = list(_stored_fields(Instance))
_GROUPED = {group: list(_stored_fields(owner, f"{group}.")) for group, owner in _GROUPS.items()}
_PLAIN = sorted((*_OWN, *chain(*_GROUPED.values())), key=lambda field: field[3] is not MISSING)
_Record = msgspec.defstruct(
    "_Record",
    [
        *((name, kind) if default is MISSING else (name, kind, default) for _, name, kind, default in _PLAIN),
        ("waiting", Failure | None, None),
        ("create_tries", int, 0),
        ("retry_at", datetime | None, None),
    ],
    omit_defaults=True,
)
_decoder: Final = msgspec.json.Decoder(_Record)
_lease_decoder: Final = msgspec.json.Decoder(LeaseState)
_lease_encoder: Final = msgspec.json.Encoder(order="deterministic")
"""An index covers the column: a row whose text is the same costs no new entry."""
INSTANCE_COLUMNS: Final = "record, generation, created_by, labels, lease, protected, reserved_micro_usd, reserved_at"
"""What `instance_of` reads of a row."""
_in_order: Final = attrgetter(*(path for path, _, _, _ in _PLAIN))


class _Part:
    """Makes one part of an instance of a stored record, without `__init__`, which takes three times as long."""

    def __init__(self, owner: type, stored: Sequence[tuple[str, str, Any, Any]]) -> None:
        self._owner = owner
        self._put = [getattr(owner, path.rpartition(".")[2]).__set__ for path, _, _, _ in stored]
        self._values = attrgetter(*(name for _, name, _, _ in stored))

    def __call__(self, record: Any) -> Any:
        made: Any = object.__new__(self._owner)
        for put, value in zip(self._put, self._values(record), strict=True):
            put(made, value)
        return made


_instance = _Part(Instance, _OWN)
_groups = {getattr(Instance, group).__set__: _Part(_GROUPS[group], stored) for group, stored in _GROUPED.items()}


def record_of(instance: Instance) -> str:
    """The record of *instance*."""
    wait = instance.waiting
    waiting = () if wait is None else (Failure(code=wait.code, message=wait.message), wait.tries, wait.retry_at)
    return msgspec.json.encode(_Record(*_in_order(instance), *waiting)).decode()


def labels_of(instance: Instance) -> str | None:
    """As the column has them: null without labels, so that those rows are not in its index."""
    return msgspec.json.encode(dict(instance.labels)).decode() if instance.labels else None


def lease_of(instance: Instance) -> str | None:
    """As the column has it; null without a lease, so that those rows are not in its index."""
    return None if instance.lease is None else _lease_encoder.encode(instance.lease).decode()


def instance_of(row: Any) -> Instance:
    """
    The instance of a row with `record` and `generation`, and perhaps the others of `INSTANCE_COLUMNS`.

    The generation is the row's, which every write counts up. So are the others, if the row has them: a process of an
    earlier release that writes the record drops them there. A reservation is released in its column first.
    """
    record: Any = _decoder.decode(row["record"])
    record.generation = row["generation"]
    record.created_by = row.get("created_by") or record.created_by
    labels = row.get("labels")
    if labels is not None:
        record.labels = tuple(sorted(msgspec.json.decode(labels, type=dict[str, str]).items()))
    lease = row.get("lease")
    if lease is not None:
        record.lease = _lease_decoder.decode(lease)
    if "reserved_micro_usd" in row:
        amount = row["reserved_micro_usd"]
        record.protected = bool(row["protected"])
        record.reservation = None if amount is None else Reservation(micro_usd=amount, at=row["reserved_at"])
    found: Instance = _instance(record)
    for put, part in _groups.items():
        put(found, part(record))
    why = record.waiting
    wait = why and CreateWait(code=why.code, message=why.message, tries=record.create_tries, retry_at=record.retry_at)
    object.__setattr__(found, "waiting", wait)
    return found
