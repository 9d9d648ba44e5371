"""How the end of an instance is shown."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console
from support.sdk_models import an_instance

from corral.cli.commands.listing import LiveTable, print_instances
from corral.cli.lease_text import ends, lease_facts
from corral_client import Instance, Lease, LeaseIdle, LeaseQuiet, LeaseSchedule

NOW = datetime(2030, 1, 10, 12, tzinfo=UTC)


def leased(name: str = "web", **lease: Any) -> Instance:
    return an_instance(name=name, lease=Lease(**lease))


@pytest.mark.parametrize(
    ("left", "because", "shown"),
    [
        (timedelta(minutes=12, seconds=40), "idle", "in 12 min: idle"),
        (timedelta(seconds=90), "max_duration", "in 1 min 30 s: max duration"),
        (timedelta(hours=3, minutes=20, seconds=59), "schedule", "in 3 h 20 min: schedule"),
        (timedelta(days=2, hours=1), "max_duration", "in 2 d 1 h: max duration"),
        (timedelta(seconds=-1), "idle", "now: idle"),
        (timedelta(minutes=5), "budget", "in 5 min: budget"),
    ],
)
def test_an_end_is_shown_with_its_cause(left: timedelta, because: str, shown: str) -> None:
    """Also a cause of a newer service."""
    assert ends(leased(ends_at=NOW + left, ends_because=because), NOW) == shown


def test_an_instance_that_nothing_ends_has_no_end() -> None:
    assert ends(an_instance(), NOW) is None
    assert ends(leased(idle=LeaseIdle(after="30m")), NOW) is None


def test_the_reason_of_an_expected_end_says_for_how_much_of_the_time_it_was_idle() -> None:
    """Until there is a notice, whose reason is the service's."""
    quiet = LeaseQuiet(since=NOW - timedelta(minutes=24), gpu=0.2, cpu=2.0)
    idle = leased(
        idle=LeaseIdle(after="30m"),
        ends_at=NOW + timedelta(minutes=16),
        ends_because="idle",
        reason="since",
        quiet=quiet,
    )
    noticed = leased(
        idle=LeaseIdle(after="30m"),
        ends_at=NOW + timedelta(minutes=9),
        ends_because="idle",
        reason="GPU 0 %, CPU 2 % for 30 min",
        notified_at=NOW,
    )

    assert str(lease_facts(idle, NOW)["ends"]).endswith("(GPU 0 %, CPU 2 % for 24 min of 30 min)")
    assert str(lease_facts(idle, NOW + timedelta(hours=1))["ends"]).endswith("(GPU 0 %, CPU 2 % for 30 min of 30 min)")
    assert str(lease_facts(noticed, NOW)["ends"]).endswith("(GPU 0 %, CPU 2 % for 30 min)")


def test_what_was_requested_is_one_line() -> None:
    lease = Lease(
        max_duration="8h",
        idle=LeaseIdle(after="30m"),
        schedule=LeaseSchedule(stop="0 20 * * 1-5", timezone="Europe/Berlin"),
        on_end="delete",
    )

    facts = lease_facts(an_instance(lease=lease, data_kept_until=NOW + timedelta(days=3)), NOW)

    assert facts["lease"] == (
        "at most 8h; idle for 30m; stop at 0 20 * * 1-5 (Europe/Berlin); delete 10m after a notice"
    )
    assert str(facts["disk"]).startswith("kept until 2030-01-13")
    assert str(facts["disk"]).endswith("in 3 d")


def test_a_table_has_ends_only_where_one_has_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is added for installations without leases."""
    print_instances([an_instance()])
    without = capsys.readouterr().out
    print_instances([an_instance(), leased("short", ends_at=datetime(2020, 1, 1, tzinfo=UTC), ends_because="idle")])
    heading, one, other = capsys.readouterr().out.splitlines()

    assert "ENDS" not in without
    assert heading.split()[-1] == "ENDS"
    assert one.split()[-1] == "-"
    assert other.endswith("  now: idle")


def test_a_live_table_shows_an_end_of_an_idle_instance_once_it_is_certain() -> None:
    """Activity before the notice is no event, so that a countdown would continue after it was cancelled."""
    at = datetime(2999, 1, 1, tzinfo=UTC)
    table = LiveTable(None, list)
    table.found = [
        leased("expected", ends_at=at, ends_because="idle"),
        leased("noticed", ends_at=at, ends_because="idle", notified_at=NOW),
        leased("limited", ends_at=at, ends_because="max_duration"),
    ]
    console = Console(file=io.StringIO(), width=120, height=20)
    with console.capture() as capture:
        console.print(table)

    _, expected, noticed, limited, *_ = capture.get().splitlines()
    assert expected.split()[-1] == "-"
    assert noticed.rstrip().endswith(": idle")
    assert limited.rstrip().endswith(": max duration")
