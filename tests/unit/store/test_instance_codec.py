"""What is kept of an instance, and what is left out of it."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from support.known import FRESH, NOW

from corral.domain.instance import Instance, ProviderId
from corral.store.sql.instance_codec import instance_of, record_of


def read(record: str, generation: int = 0) -> Instance:
    return instance_of({"record": record, "generation": generation})


@given(st.builds(Instance))
def test_nothing_of_an_instance_is_lost(instance: Instance) -> None:
    """Whatever it is like."""
    assert read(record_of(instance), instance.generation) == instance


def test_what_never_happened_is_left_out() -> None:
    """Of a new instance only what has to be said of any is there."""
    said = {field.name for field in fields(Instance) if field.default is MISSING}

    assert set(msgspec.json.decode(record_of(FRESH))) == said


def test_only_what_means_nothing_is_left_out() -> None:
    """A default with a meaning of its own would change what old records say, should it ever be changed."""
    defaults = {field.default for field in fields(Instance) if field.default is not MISSING}

    assert defaults == {None, 0, ()}
    assert all(field.default_factory is MISSING for field in fields(Instance))


def test_what_was_ordered_is_kept_whole() -> None:
    """Its defaults are choices, and those of a later release may differ."""
    kept = msgspec.json.decode(record_of(FRESH))["order"]

    assert (kept["gpu_num"], kept["rootfs_gb"]) == (1, 60)
    assert kept["health"]["retry_attempts"] == 3


def test_records_of_an_earlier_release_are_read() -> None:
    """They leave nothing out."""
    instance = replace(FRESH, provider_id=ProviderId("p-1"), sighted_at=NOW)

    assert read(msgspec.json.encode(instance).decode()) == instance


def test_the_generation_is_the_rows() -> None:
    """A write counts it up there, and not in the record it writes."""
    assert read(record_of(replace(FRESH, generation=4)), 5) == replace(FRESH, generation=5)
