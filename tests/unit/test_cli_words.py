"""What the commands say, where it depends on the time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from corral.cli.output import clock_time, expected

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_an_estimate_that_has_passed_is_not_promised_any_more() -> None:
    """Before its time it is about when; after it, that it is late."""
    later, earlier = NOW + timedelta(minutes=4), NOW - timedelta(minutes=4)

    assert expected(later, NOW) == f"ready at about {clock_time(later)}"
    assert expected(earlier, NOW) == f"takes longer than usual: expected at {clock_time(earlier)}"
