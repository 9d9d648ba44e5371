"""Leases on the command line: what options ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from corral.cli.commands.lease import moment
from corral.cli.create_options.lease import OnEnd, lease_order, offered_durations, offered_zones
from corral.domain.errors import MalformedError

NOTHING: dict[str, Any] = {
    "ttl": None,
    "idle": None,
    "on_end": None,
    "grace": None,
    "stop_at": None,
    "start_at": None,
    "timezone": None,
}


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, {}),
        ({"ttl": "8h", "idle": "30m"}, {"max_duration": "8h", "idle": {"after": "30m"}}),
        ({"ttl": "none", "idle": "none"}, {"max_duration": None, "idle": None}),
        ({"on_end": OnEnd.DELETE, "grace": "5m"}, {"on_end": "delete", "grace": "5m"}),
        (
            {"stop_at": "0 20 * * 1-5", "start_at": "none", "timezone": "Europe/Berlin"},
            {"schedule": {"stop": "0 20 * * 1-5", "start": None, "timezone": "Europe/Berlin"}},
        ),
        ({"stop_at": "none", "start_at": "none"}, {"schedule": None}),
        ({"timezone": "Asia/Tokyo"}, {"schedule": {"timezone": "Asia/Tokyo"}}),
    ],
)
def test_options_name_what_changes_and_nothing_else(options: dict[str, Any], order: dict[str, Any]) -> None:
    """What no option names has the service's default or stays as it was; `none` removes a part."""
    assert lease_order(**{**NOTHING, **options}) == order


def test_a_time_without_a_zone_is_one_of_this_computer() -> None:
    assert moment("2030-01-31T18:00Z") == datetime(2030, 1, 31, 18, tzinfo=UTC)
    assert moment("2030-01-31 18:00+02:00") == datetime(2030, 1, 31, 16, tzinfo=UTC)
    assert moment("2030-01-31T18:00").utcoffset() is not None


@pytest.mark.parametrize("text", ["", "6pm", "2h", "2030-13-01T00:00", "0001-01-01T00:00+14:00"])
def test_a_time_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(MalformedError, match=r"--until: .* is no time such as"):
        moment(text)


def test_durations_and_time_zones_are_completed() -> None:
    assert offered_durations("1") == ["1h", "1d"]
    assert "Europe/Berlin" in offered_zones("Europe/B")
    assert all(zone.startswith("Europe/B") for zone in offered_zones("Europe/B"))
