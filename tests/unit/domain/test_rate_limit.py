"""So many requests in a window, for each caller apart, in bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from corral.domain.rate_limit import RateLimit


def test_a_window_begins_with_the_first_request_and_ends_after_its_time() -> None:
    """What is refused costs nothing, and the next window is whole again."""
    limit = RateLimit(most=2, window_seconds=10)
    stood = [limit.take("a", now) for now in (100.0, 104.0, 105.0, 109.9, 110.0)]

    assert [standing.admitted for standing in stood] == [True, True, False, False, True]
    assert [standing.remaining for standing in stood] == [1, 0, 0, 0, 1]
    assert [round(standing.resets_in_seconds, 6) for standing in stood] == [10, 6, 5, 0.1, 10]
    assert {standing.limit for standing in stood} == {2}


def test_callers_are_counted_apart() -> None:
    """One that asks too often takes nothing from the others."""
    limit = RateLimit(most=1, window_seconds=10)

    assert [limit.take(caller, 0).admitted for caller in ("a", "a", "b")] == [True, False, True]


def test_the_callers_remembered_are_bounded() -> None:
    """The oldest windows are dropped first."""
    limit = RateLimit(most=1, window_seconds=10, most_callers=2)
    for caller in ("a", "b", "c"):
        limit.take(caller, 0)

    assert [limit.take(caller, 1).admitted for caller in ("c", "b", "a")] == [False, False, True]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 20)), max_size=60), st.integers(1, 5))
def test_no_window_ever_admits_more_than_its_share(steps: list[tuple[str, float]], most: int) -> None:
    """Whatever the order and the pauses: between a window's first request and its end, at most *most* pass."""
    limit, now, admitted = RateLimit(most=most, window_seconds=10), 0.0, list[tuple[str, float]]()
    begun: dict[str, float] = {}
    for caller, pause in steps:
        now += pause
        standing = limit.take(caller, now)
        began = now + standing.resets_in_seconds - 10
        assert standing.remaining >= 0
        if begun.get(caller) is None or abs(begun[caller] - began) > 0.001:
            begun[caller] = began
            admitted = [(name, at) for name, at in admitted if name != caller]
        if standing.admitted:
            admitted.append((caller, now))
        assert len([name for name, _ in admitted if name == caller]) <= most
