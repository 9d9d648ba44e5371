"""What a soak calls trouble."""

from __future__ import annotations

import pytest
from support.soak.report import Plan, Report, of_budget, of_losses, of_memory, of_patience, waits


def report(**seen: object) -> Report:
    plan = Plan(instances=1, seconds=1, calls_per_minute=100, seed=1)
    found = Report(plan=plan)
    found.asked["create"] = 1
    for name, value in seen.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    ("memory", "is_flat"),
    [
        ([50.0] * 3 + [100.0] * 6, True),
        ([100.0 + n for n in range(9)], True),
        ([100.0 + 10 * n for n in range(9)], False),
        ([300.0, 300.0, 300.0, 100.0, 100.0, 100.0, 130.0, 130.0, 130.0], False),
    ],
)
def test_memory_may_breathe_but_not_grow(memory: list[float], *, is_flat: bool) -> None:
    """The first third is the way up, and does not count."""
    assert (of_memory(memory) == []) is is_flat


def test_one_call_too_many_is_trouble() -> None:
    """Also one that the provider had to refuse."""
    assert of_budget(report(busiest_minute=100), 100) == []
    assert of_budget(report(busiest_minute=101), 100) == ["101 calls in a minute, of 100"]
    assert of_budget(report(throttled=1), 100) == ["1 calls were throttled"]


def test_a_job_that_waits_too_long_is_reported() -> None:
    """A run without requests shows nothing."""
    assert of_patience(report(oldest_job_seconds=1.0)) == []
    assert of_patience(report(oldest_job_seconds=301.0)) == ["a job that could run waited 301 s"]
    assert "nothing was asked" in of_patience(Report(plan=report().plan))


def test_a_wait_ends_when_what_was_asked_is_so() -> None:
    """Not when it was so before, nor at another change on the way."""
    at = "2030-01-01T00:00:{:02}.000Z"
    events = [
        {"instanceId": "a", "status": status, "timestamp": at.format(second)}
        for second, status in [(0, "ready"), (20, "stopping"), (25, "exited"), (30, "exited")]
    ]
    asked = 1893456010.0  # ten seconds into the year

    assert waits(events, {"a": asked}, {"a": "exited"}) == {"a": 15.0}
    assert waits(events, {"a": asked}, {"a": "ready"}) == {}


def test_a_loss_that_is_noticed_late_or_never_is_trouble() -> None:
    """Both are to be dealt with in five minutes."""
    assert of_losses(report(vanished=300.0, repeated=61.0)) == []
    assert of_losses(report(vanished=301.0)) == [
        "the vanished machine: 301",
        "the create without effect: never",
    ]


def test_only_the_vanished_machine_may_fail() -> None:
    """Any other is a false alarm."""
    seen = report()
    seen.ends["failed"] = 1
    assert of_patience(seen) == []
    seen.ends["failed"] = 2
    assert of_patience(seen) == ["2 failed"]
