"""Times as people write them after `--since`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.cli.periods import read_time

TUESDAY = datetime(2026, 11, 17, 2, 30, 15, tzinfo=UTC)
DAY = datetime(2026, 11, 17, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", TUESDAY),
        ("today", DAY),
        ("yesterday", DAY - timedelta(days=1)),
        ("month", datetime(2026, 11, 1, tzinfo=UTC)),
        ("mon", DAY - timedelta(days=1)),
        ("Monday", DAY - timedelta(days=1)),
        ("tue", DAY),
        ("wed", DAY - timedelta(days=6)),
        (" SUN ", DAY - timedelta(days=2)),
        ("7d", TUESDAY - timedelta(days=7)),
        ("1h30m", TUESDAY - timedelta(minutes=90)),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T12:30", datetime(2026, 11, 1, 12, 30, tzinfo=UTC)),
        ("2026-11-01t12:30:00z", datetime(2026, 11, 1, 12, 30, tzinfo=UTC)),
        ("2026-11-01T00:30+02:00", datetime(2026, 10, 31, 22, 30, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_as_it_is_meant(text: str, at: datetime) -> None:
    """In UTC, wherever the caller is."""
    assert read_time(text, TUESDAY) == at
    assert read_time(text, TUESDAY.astimezone(timezone(timedelta(hours=-8)))) == at


@pytest.mark.parametrize("text", ["", "7", "week", "2026-13-01", "999999d", "mo", "-7d", "0001-01-01T00:00+14:00"])
def test_anything_else_is_refused_with_what_is_accepted(text: str) -> None:
    """The message has an example of each form."""
    with pytest.raises(ValueError, match="must be today, mon, month, 7d"):
        read_time(text, TUESDAY)


@given(st.text(max_size=12))
def test_no_text_has_another_outcome(text: str) -> None:
    """A time with a zone, or a ValueError."""
    try:
        at = read_time(text, TUESDAY)
    except ValueError:
        return
    assert at.utcoffset() == timedelta(0)
