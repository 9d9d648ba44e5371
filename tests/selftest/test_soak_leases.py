"""What a soak with leases calls trouble."""

from __future__ import annotations

import string
from typing import Any

import pytest
from support.soak.leases import (
    CLASSES,
    EVERY_TTL,
    SHOWN_SECONDS,
    LeaseReport,
    due_within,
    kind_of,
    lease_of,
    of_ends,
    of_share,
)
from support.soak.report import Plan, Report, of_lags

TTL, IDLE = 0, 3
"""Numbers of an instance with a maximum duration, and of one that is idle after a minute."""


def shown(status: str = "ready", ended_by: str | None = None) -> dict[str, Any]:
    return {"status": status, "lease": {"endedBy": ended_by}}


def ends(
    last: str, number: int, one: dict[str, Any], *, seconds: float = 0.0, changed: bool = False, shown_for: float = 0.0
) -> list[str]:
    """The trouble with the one instance of this number, among others that are ended by their maximum duration."""
    ids = [f"inst_{at}x" for at in range(number)] + [f"inst_{last}"]
    others = {each: shown("exited", "max_duration" if at % EVERY_TTL == 0 else None) for at, each in enumerate(ids)}
    return of_ends(
        LeaseReport(),
        ids,
        others | {ids[number]: one},
        {ids[number]} if changed else set(),
        calls_per_minute=300,
        seconds=seconds,
        measured={ids[number]: shown_for},
    )


def test_every_id_has_one_kind_of_machine() -> None:
    assert sorted("".join(CLASSES.values())) == sorted(string.digits + string.ascii_lowercase)
    assert [kind_of(f"inst_0{last}") for last in "9hijklz"] == [
        "quiet",
        "quiet",
        "zeros",
        "stale",
        "none",
        "repeated",
        "busy",
    ]


def test_leases_are_mixed() -> None:
    assert lease_of(TTL, 9) == {"maxDuration": "10m", "grace": "60s"}
    assert lease_of(TTL + EVERY_TTL, 9) == {"maxDuration": "11m", "grace": "60s"}
    assert lease_of(IDLE, 9) == {"idle": {"after": "1m"}, "grace": "60s"}
    assert lease_of(IDLE + 2, 9) == {"idle": {"after": "30m"}, "grace": "60s"}


@pytest.mark.parametrize("last", ["i", "j", "k", "l", "z"])
def test_a_machine_that_works_or_of_which_nothing_is_known_must_not_be_ended(last: str) -> None:
    assert ends(last, IDLE, shown("exited", "idle")) == [
        f"inst_{last} was ended as idle, and its machine is {kind_of(last)}"
    ]
    assert ends(last, IDLE, shown(), seconds=1e9) == []


def test_a_quiet_machine_must_be_ended_once_its_samples_can_have_shown_it() -> None:
    within = due_within(IDLE, "inst_5", IDLE + 1, 300)
    assert within is not None

    assert ends("5", IDLE, shown(), seconds=within - 1) == []
    assert ends("5", IDLE, shown(), seconds=within) == ["inst_5 should have been ended and is ready"]
    assert ends("5", IDLE, shown("exited", "idle"), seconds=within) == []
    assert ends("5", IDLE, shown(), seconds=within, changed=True) == []


@pytest.mark.parametrize(("last", "is_ended"), [("5", True), ("z", False), ("k", False)])
def test_a_machine_that_was_measured_to_be_quiet_must_be_ended_although_others_were_not_sampled_yet(
    last: str, *, is_ended: bool
) -> None:
    """So that a short soak of many leases can find one that is not ended."""
    assert ends(last, IDLE, shown(), shown_for=SHOWN_SECONDS - 1) == []
    found = ends(last, IDLE, shown(), shown_for=SHOWN_SECONDS)

    assert found == ([f"inst_{last} should have been ended and is ready"] if is_ended else [])
    assert ends(last, IDLE, shown(), shown_for=SHOWN_SECONDS, changed=True) == []


def test_ten_thousand_leases_take_two_rounds_of_samples() -> None:
    """Sixty samples a minute."""
    within = due_within(IDLE, "inst_5", 10_000, 300)

    assert within is not None
    assert 2 * 10_000 / 60 * 60 < within < 2 * 10_000 / 60 * 60 + 600


def test_a_maximum_duration_ends_also_a_machine_that_works_and_only_if_there_is_one() -> None:
    assert ends("z", TTL, shown(), seconds=600) == ["inst_z should have been ended and is ready"]
    assert ends("z", TTL, shown("exited", "max_duration"), seconds=600) == []
    assert len(ends("z", IDLE, shown("exited", "max_duration"))) == 1


def test_sampling_keeps_its_share() -> None:
    report = LeaseReport(samples=660)

    assert of_share(report, calls_per_minute=300, seconds=600) == []
    assert report.share == pytest.approx(0.22)
    report.samples = 661
    assert of_share(report, calls_per_minute=300, seconds=600) == ["sampling used 661 calls, of 660"]


def test_a_longer_readiness_lag_with_leases_is_trouble() -> None:
    report = Report(plan=Plan(instances=1, seconds=1, calls_per_minute=100, seed=1, leases=1))
    report.lags_before, report.lags = [4.0, 6.0, 8.0], [10.0, 12.0, 14.0]
    assert of_lags(report) == []
    report.lags = [13.0]
    assert of_lags(report) == ["the median readiness lag grew from 6.0 to 13.0 s with leases"]
