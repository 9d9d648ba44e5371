"""How an instance is stored: which fields a record has, and that records of earlier releases are read."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from datetime import datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from support.engines.known import FRESH, NOW

from corral.domain.errors import Failure
from corral.domain.instance import (
    CreateAttempt,
    CreateWait,
    Instance,
    LoginMethods,
    Observation,
    PendingAction,
    ProviderId,
)
from corral.domain.lifecycle.phases import Action
from corral.domain.observation.sighting import Sighting
from corral.domain.observation.spot import Spot
from corral.store.sql.instance_codec import instance_of, record_of

GROUPS = (CreateAttempt, Observation, PendingAction)
REQUIRED = {"id", "order", "goal", "phase", "operation_id", "created_at", "phase_since", "deadline_at"}
FLAT = {
    "attempt": 3,
    "create_sent_at": "2030-01-01T00:00:01Z",
    "create_ended": True,
    "doubted_at": "2030-01-01T00:00:02Z",
    "listings_since_sent": 1,
    "waiting": {"code": "RESOURCE_CONSTRAINTS", "message": "waiting for capacity"},
    "create_tries": 2,
    "retry_at": "2030-01-01T00:00:03Z",
    "sighting": "running",
    "word": "Running",
    "sighted_at": "2030-01-01T00:00:04Z",
    "booted_at": "2030-01-01T00:00:05Z",
    "provider_failure": "the host broke",
    "spot": {"status": "notified", "reclaim_at": None, "noticed_at": "2030-01-01T00:00:06Z"},
    "missing_since": "2030-01-01T00:00:07Z",
    "missing_checks": 4,
    "missing_checked_at": "2030-01-01T00:00:08Z",
    "unfound_since": "2030-01-01T00:00:09Z",
    "unlisted_since": "2030-01-01T00:00:10Z",
    "unlisted_found_at": "2030-01-01T00:00:11Z",
    "owed": "start",
    "asks": 5,
    "acted_at": "2030-01-01T00:00:12Z",
    "answered_at": "2030-01-01T00:00:13Z",
    "acted_on": "exited",
    "refused": {"code": "STARTUP_FAILED", "message": "no"},
    "provider_id": "p-1",
    "given_up": [1, 2],
    "ways": {"ssh": "ssh -p 22 root@10.0.0.1", "jupyter": None, "web_terminal": None},
}
"""Fields as the first release stored them: flat, under their first names."""


def at(seconds: int) -> datetime:
    return NOW + timedelta(seconds=seconds)


def read(record: str, generation: int = 0) -> Instance:
    return instance_of({"record": record, "generation": generation})


@given(st.builds(Instance))
def test_nothing_of_an_instance_is_lost(instance: Instance) -> None:
    """Whatever it is like."""
    assert read(record_of(instance), instance.generation) == instance


def test_what_never_happened_is_left_out() -> None:
    """A new instance has only the fields that every instance has."""
    assert set(msgspec.json.decode(record_of(FRESH))) == REQUIRED


def test_only_what_means_nothing_is_left_out() -> None:
    """A default with a meaning of its own would change what old records say, should it ever be changed."""
    grouped = [field for group in GROUPS for field in fields(group)]
    own = [field for field in fields(Instance) if not isinstance(field.default, GROUPS)]
    defaults = {field.default for field in (*own, *grouped) if field.default is not MISSING}

    assert defaults == {None, 0, ()}
    assert all(field.default_factory is MISSING for field in (*own, *grouped))
    assert [field.default for field in fields(Instance) if isinstance(field.default, GROUPS)] == [g() for g in GROUPS]


def test_the_request_is_kept_whole() -> None:
    """Its defaults are choices, and those of a later release may differ."""
    kept = msgspec.json.decode(record_of(FRESH))["order"]

    assert (kept["gpu_num"], kept["rootfs_gb"]) == (1, 60)
    assert kept["health"]["retry_attempts"] == 3


def test_records_of_an_earlier_release_are_read_and_written() -> None:
    """Processes of two releases share the rows during an upgrade, and a backup may be of any release."""
    old = msgspec.json.decode(record_of(FRESH)) | FLAT
    instance = replace(
        FRESH,
        create=CreateAttempt(number=3, sent_at=at(1), ended=True, doubted_at=at(2), listings_without=1),
        waiting=CreateWait(code="RESOURCE_CONSTRAINTS", message="waiting for capacity", tries=2, retry_at=at(3)),
        observation=Observation(
            sighting=Sighting.RUNNING,
            provider_status="Running",
            sighted_at=at(4),
            booted_at=at(5),
            failure="the host broke",
            spot=Spot(status="notified", noticed_at=at(6)),
            unlisted_since=at(7),
            absence_checks=4,
            absence_checked_at=at(8),
            lookup_failed_since=at(9),
            found_unlisted_since=at(10),
            found_unlisted_at=at(11),
        ),
        pending=PendingAction(
            action=Action.START,
            attempts=5,
            sent_at=at(12),
            ended_at=at(13),
            sent_on=Sighting.EXITED,
            refused=Failure(code="STARTUP_FAILED", message="no"),
        ),
        provider_id=ProviderId("p-1"),
        given_up=(1, 2),
        access=LoginMethods(ssh="ssh -p 22 root@10.0.0.1"),
    )

    assert read(msgspec.json.encode(old).decode()) == instance
    assert msgspec.json.decode(record_of(instance)) == old


def test_a_record_that_leaves_nothing_out_is_read() -> None:
    """The first release wrote null, 0 and [] for what had not happened."""
    unset = dict.fromkeys(FLAT, None) | {"attempt": 0, "create_ended": False, "listings_since_sent": 0}
    unset |= {"create_tries": 0, "missing_checks": 0, "asks": 0, "given_up": []}

    assert read(msgspec.json.encode(msgspec.json.decode(record_of(FRESH)) | unset).decode()) == FRESH


def test_the_generation_is_the_rows() -> None:
    """A write counts it up there, and not in the record it writes."""
    assert read(record_of(replace(FRESH, generation=4)), 5) == replace(FRESH, generation=5)
