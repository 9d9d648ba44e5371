"""The tally of calls and the rate limit."""

from __future__ import annotations

from novitasim.api.calls import Calls


def test_the_busiest_minute_slides() -> None:
    calls = Calls()
    for at in (0, 50, 59, 61, 100, 300):
        calls.arrived("list", at)

    report = calls.report()

    assert report["total"] == 6
    assert report["busiest_minute"] == 4


def test_a_limit_admits_so_many_and_says_when_to_come_again() -> None:
    calls = Calls()

    assert [calls.admit(at, 2) for at in (0.0, 10.0, 20.0, 59.5, 60.0)] == [None, None, 40, 1, None]


def test_zero_is_no_limit() -> None:
    calls = Calls()

    assert {calls.admit(0.0, 0) for _ in range(1000)} == {None}


def test_outcomes_are_counted_by_call() -> None:
    calls = Calls()
    calls.arrived("create", 0)
    calls.ended("create", "lost_reply")

    assert calls.report()["endpoints"] == {"create": {"total": 1, "busiest_minute": 1, "outcomes": {"lost_reply": 1}}}
