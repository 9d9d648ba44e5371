"""The fields of a lease: what is accepted, what the errors say, and what defaults and the ceiling do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.histories.leased import HOUR, MINUTE

from corral.domain.leases.changes import Extension
from corral.domain.leases.durations import duration_text, read_duration, spoken
from corral.domain.leases.lease import EndAction, IdleRule, Lease, Schedule, Signal
from corral.domain.requests.lease import (
    LeaseChange,
    LeaseDefaults,
    changed,
    read_extension,
    read_last_used,
    read_lease,
    read_lease_change,
)

DAY = timedelta(days=1)
NONE = LeaseDefaults()
USUAL = LeaseDefaults(max_duration=4 * HOUR, idle_after=HOUR, max_ttl=DAY)
FULL = {
    "maxDuration": "8h",
    "idle": {"after": "1h30m", "gpuBelow": 3, "cpuBelow": "7.5", "signals": ["gpu", "lastUsed"]},
    "schedule": {"stop": "0  20 * * 1-5", "start": "0 8 * * MON-FRI", "timezone": "Europe/Berlin"},
    "onEnd": "delete",
    "grace": "90s",
}
FULL_LEASE = Lease(
    max_duration=8 * HOUR,
    idle=IdleRule(after=90 * MINUTE, gpu_below=3.0, cpu_below=7.5, signals=frozenset({Signal.GPU, Signal.LAST_USED})),
    schedule=Schedule(stop="0 20 * * 1-5", start="0 8 * * MON-FRI", timezone="Europe/Berlin"),
    on_end=EndAction.DELETE,
    grace=1.5 * MINUTE,
)


def problems(lease: object, defaults: LeaseDefaults = NONE) -> dict[str, str]:
    found, wrong = read_lease({"lease": lease}, defaults)
    assert found is None
    assert {each.code for each in wrong} == {"INVALID_LEASE"}
    return {each.field: each.message for each in wrong}


def patched(lease: Lease | None, body: Mapping[str, Any], defaults: LeaseDefaults = NONE) -> Any:
    change = read_lease_change(body)
    assert isinstance(change, LeaseChange), change
    return changed(lease, change, defaults)


def test_every_field_is_read() -> None:
    assert read_lease({"lease": FULL}, NONE) == (FULL_LEASE, ())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, Lease(max_duration=4 * HOUR, idle=IdleRule(after=HOUR))),
        ({"lease": {}}, Lease(max_duration=4 * HOUR, idle=IdleRule(after=HOUR))),
        ({"lease": None}, Lease(max_duration=DAY)),
        ({"lease": {"maxDuration": None, "idle": None}}, Lease(max_duration=DAY)),
        ({"lease": {"maxDuration": "24h", "idle": {"gpuBelow": 1}}},
         Lease(max_duration=DAY, idle=IdleRule(after=HOUR, gpu_below=1.0))),
    ],
)  # fmt: skip
def test_defaults_complete_what_is_left_out_and_the_ceiling_what_is_removed(
    body: dict[str, Any], expected: Lease
) -> None:
    assert read_lease(body, USUAL) == (expected, ())


def test_without_defaults_there_is_no_lease_unless_one_is_requested() -> None:
    bodies: list[dict[str, Any]] = [{}, {"lease": None}, {"lease": {}}, {"lease": {"grace": "1m"}}]
    for body in bodies:
        assert read_lease(body, NONE) == (None, ())


def test_a_default_above_the_ceiling_is_cut() -> None:
    found, _ = read_lease({}, LeaseDefaults(max_duration=2 * DAY, max_ttl=DAY))

    assert found == Lease(max_duration=DAY)


@pytest.mark.parametrize(
    ("lease", "field"),
    [
        ("8h", "lease"),
        ([], "lease"),
        ({"maxDuration": "-1h"}, "lease.maxDuration"),
        ({"maxDuration": "0s"}, "lease.maxDuration"),
        ({"maxDuration": "59s"}, "lease.maxDuration"),
        ({"maxDuration": "366d"}, "lease.maxDuration"),
        ({"maxDuration": "999999d999999h"}, "lease.maxDuration"),
        ({"maxDuration": "9" * 5000 + "d"}, "lease.maxDuration"),
        ({"maxDuration": "\u0663h"}, "lease.maxDuration"),
        ({"maxDuration": "1e3s"}, "lease.maxDuration"),
        ({"maxDuration": ""}, "lease.maxDuration"),
        ({"maxDuration": 3600}, "lease.maxDuration"),
        ({"maxDuration": True}, "lease.maxDuration"),
        ({"maxDuratoin": "8h"}, "lease"),
        ({"grace": "24h1s"}, "lease.grace"),
        ({"onEnd": "burn"}, "lease.onEnd"),
        ({"idle": "30m"}, "lease.idle"),
        ({"idle": {}}, "lease.idle.after"),
        ({"idle": {"after": None}}, "lease.idle.after"),
        ({"idle": {"after": "30s"}}, "lease.idle.after"),
        ({"idle": {"after": "31d"}}, "lease.idle.after"),
        ({"idle": {"after": "30m", "gpuBelow": 0}}, "lease.idle.gpuBelow"),
        ({"idle": {"after": "30m", "cpuBelow": 100.1}}, "lease.idle.cpuBelow"),
        ({"idle": {"after": "30m", "cpuBelow": float("nan")}}, "lease.idle.cpuBelow"),
        ({"idle": {"after": "30m", "signals": []}}, "lease.idle.signals"),
        ({"idle": {"after": "30m", "signals": ["gpu", "gpu"]}}, "lease.idle.signals"),
        ({"idle": {"after": "30m", "signals": ["gpu", "disk"]}}, "lease.idle.signals"),
        ({"idle": {"after": "30m", "signals": "gpu"}}, "lease.idle.signals"),
        ({"idle": {"after": "30m", "gpu_below": 1}}, "lease.idle"),
        ({"schedule": {}}, "lease.schedule"),
        ({"schedule": {"timezone": "UTC"}}, "lease.schedule"),
        ({"schedule": {"stop": None, "start": None}}, "lease.schedule"),
        ({"schedule": {"stop": "0 20 * * *", "start": "0 20 * * *"}}, "lease.schedule"),
        ({"schedule": {"stop": "at eight"}}, "lease.schedule.stop"),
        ({"schedule": {"stop": "@daily"}}, "lease.schedule.stop"),
        ({"schedule": {"stop": "0 0 30 2 *"}}, "lease.schedule.stop"),
        ({"schedule": {"stop": "0 0 31 4,6 *"}}, "lease.schedule.stop"),
        ({"schedule": {"stop": "* * * * *"}}, "lease.schedule.stop"),
        ({"schedule": {"stop": "0,57 0,23 * * *"}}, "lease.schedule.stop"),
        ({"schedule": {"stop": "0 20 * * * *"}}, "lease.schedule.stop"),
        ({"schedule": {"stop": "60 20 * * *"}}, "lease.schedule.stop"),
        ({"schedule": {"stop": "0 20 * *"}}, "lease.schedule.stop"),
        ({"schedule": {"start": "9" * 5000 + " 0 * * *"}}, "lease.schedule.start"),
        ({"schedule": {"stop": 20}}, "lease.schedule.stop"),
        ({"schedule": {"stop": "0 20 * * *", "timezone": "Mars/Base"}}, "lease.schedule.timezone"),
        ({"schedule": {"stop": "0 20 * * *", "timezone": "Europe"}}, "lease.schedule.timezone"),
        ({"schedule": {"stop": "0 20 * * *", "timezone": "../../etc/passwd"}}, "lease.schedule.timezone"),
        ({"schedule": {"stop": "0 20 * * *", "timezone": "localtime"}}, "lease.schedule.timezone"),
        ({"schedule": {"stop": "0 20 * * *", "timezone": 1}}, "lease.schedule.timezone"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named(lease: object, field: str) -> None:
    assert list(problems(lease)) == [field]


def test_all_problems_are_reported_at_once() -> None:
    lease = {"maxDuration": "-1h", "idle": {"after": "0s"}, "schedule": {"stop": "x", "timezone": "y"}, "z": 1}

    assert set(problems(lease)) == {
        "lease", "lease.maxDuration", "lease.idle.after", "lease.schedule.stop", "lease.schedule.timezone"
    }  # fmt: skip


def test_a_duration_above_the_ceiling_is_refused_with_the_ceiling() -> None:
    assert problems({"maxDuration": "24h1s"}, USUAL) == {"lease.maxDuration": "must be at most 1 d: CORRAL_MAX_TTL"}


@pytest.mark.parametrize("expression", ["*/5 * * * *", "0 0 29 2 *", "0 0 L * *", "0 0 * * 5L", "0 0 31 2 1"])
def test_rare_and_frequent_times_that_come_are_accepted(expression: str) -> None:
    found, wrong = read_lease({"lease": {"schedule": {"stop": expression}}}, NONE)

    assert wrong == ()
    assert found == Lease(schedule=Schedule(stop=expression))


def test_a_change_keeps_what_it_leaves_out() -> None:
    after = patched(FULL_LEASE, {"grace": "5m", "idle": {"after": "2h"}, "schedule": {"start": None}})

    assert after == Lease(
        max_duration=8 * HOUR,
        idle=IdleRule(after=2 * HOUR, gpu_below=3.0, cpu_below=7.5, signals=frozenset({Signal.GPU, Signal.LAST_USED})),
        schedule=Schedule(stop="0 20 * * 1-5", timezone="Europe/Berlin"),
        on_end=EndAction.DELETE,
        grace=5 * MINUTE,
    )


def test_null_removes_a_part_or_restores_its_default() -> None:
    body = {"maxDuration": None, "onEnd": None, "grace": None, "schedule": None, "idle": {"gpuBelow": None}}

    after = patched(FULL_LEASE, body)

    signals = frozenset({Signal.GPU, Signal.LAST_USED})
    assert after == Lease(idle=IdleRule(after=90 * MINUTE, cpu_below=7.5, signals=signals))


def test_a_change_gives_a_lease_to_an_instance_without_one() -> None:
    assert patched(None, {"maxDuration": "2h"}) == Lease(max_duration=2 * HOUR)
    assert patched(None, {"grace": "0s", "onEnd": "delete"}) == Lease()
    assert patched(None, {"grace": "0s"}, USUAL) == Lease(max_duration=DAY, grace=0 * MINUTE)


def test_a_change_must_leave_a_whole_rule_and_stay_below_the_ceiling() -> None:
    for lease, body, field in (
        (None, {"idle": {"gpuBelow": 1}}, "lease.idle.after"),
        (FULL_LEASE, {"schedule": {"stop": None, "start": None}}, "lease.schedule"),
        (FULL_LEASE, {"maxDuration": "25h"}, "lease.maxDuration"),
    ):
        assert [each.field for each in patched(lease, body, USUAL)] == [field]


def test_a_change_of_something_else_keeps_a_duration_above_a_ceiling_that_was_lowered() -> None:
    lease = Lease(max_duration=2 * DAY)

    assert patched(lease, {"grace": "1m"}, USUAL) == Lease(max_duration=2 * DAY, grace=MINUTE)


def test_an_extension_has_exactly_one_of_by_and_until() -> None:
    at = datetime(2026, 11, 17, 18, tzinfo=UTC)

    assert read_extension({"by": "2h"}) == Extension(by=2 * HOUR)
    assert read_extension({"until": "2026-11-17T19:00:00+01:00"}) == Extension(until=at)
    wrong: list[object] = [
        {}, {"by": None}, {"by": "2h", "until": "2026-11-17T18:00:00Z"}, {"by": "0s"}, {"by": "366d"}, {"by": "-2h"},
        [], {"until": "2026-11-17T18:00:00"}, {"until": "tomorrow"}, {"until": 5},
        {"until": "0001-01-01T00:00:00+14:00"},
    ]  # fmt: skip
    for body in wrong:
        assert isinstance(read_extension(body), tuple), body


def test_a_use_may_have_a_time() -> None:
    assert read_last_used(None) is None
    assert read_last_used({}) is None
    assert read_last_used({"lastUsedAt": "2026-11-17T18:00:00Z"}) == datetime(2026, 11, 17, 18, tzinfo=UTC)
    assert isinstance(read_last_used({"lastUsedAt": "yesterday"}), tuple)


@pytest.mark.parametrize(
    ("text", "seconds", "again", "for_people"),
    [
        ("90s", 90, "1m30s", "1 min 30 s"),
        ("90m", 5400, "1h30m", "1 h 30 min"),
        ("1h30m", 5400, "1h30m", "1 h 30 min"),
        (" 2d ", 172_800, "2d", "2 d"),
        ("25h", 90_000, "1d1h", "1 d 1 h"),
        ("0s", 0, "0s", "0 s"),
        ("365d", 31_536_000, "365d", "365 d"),
    ],
)  # fmt: skip
def test_durations_are_read_and_written(text: str, seconds: int, again: str, for_people: str) -> None:
    duration = read_duration(text)

    assert duration == timedelta(seconds=seconds)
    assert (duration_text(duration), spoken(duration)) == (again, for_people)
    assert read_duration(again) == duration
