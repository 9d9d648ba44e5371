"""Whether a machine is billed, by what was seen of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from support.engines.known import NOW
from support.provider.sightings import shown

from corral.cloud.novita import translate, wire
from corral.domain.costs.meter import Meter, MeterState, agrees, expected, gone, read, starting
from corral.domain.observation.sighting import BootStage, Sighting

LATER = NOW + timedelta(minutes=10)
EXPECTED, BILLED, UNBILLED = MeterState


def seen(sighting: Sighting, meter: Meter | None = None, *, at: datetime = LATER, **said: Any) -> Meter:
    return read(meter, shown("p", sighting, **said), at)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("pending", EXPECTED), ("toCreate", EXPECTED), ("creating", EXPECTED), ("toStart", EXPECTED),
        ("pulling", BILLED), ("starting", BILLED), ("running", BILLED), ("toRestart", BILLED),
        ("restarting", BILLED), ("migrating", BILLED), ("exited", UNBILLED), ("removed", UNBILLED),
        ("stopping", EXPECTED), ("removing", EXPECTED), ("freezing", EXPECTED), ("resetting", EXPECTED),
        ("something new", EXPECTED),
    ],
)  # fmt: skip
def test_gpus_are_billed_from_pulling_on_until_stopped(status: str, state: MeterState) -> None:
    """A status that does not say leaves it open for a machine of which nothing else is known."""
    machine = translate.instance(wire.Instance(id="p", status=status), detailed=False)
    assert machine is not None
    assert read(None, machine, NOW).gpu.state is state


def test_a_failed_creation_may_stay_pulling_without_being_billed() -> None:
    """Neither is certain, so its usage has no lower bound."""
    shown = b'{"id": "p", "status": "pulling", "statusError": {"state": "create_failed", "message": "x"}}'
    machine = translate.instance(msgspec.json.decode(shown, type=wire.Instance), detailed=False)
    assert machine is not None
    assert read(expected(NOW), machine, LATER).gpu == expected(NOW).gpu


@pytest.mark.parametrize("sighting", [Sighting.STOPPING, Sighting.REMOVING])
def test_on_its_way_down_a_machine_is_billed_unless_it_may_have_stopped(sighting: Sighting) -> None:
    """The provider's own times show that it did not."""
    running = seen(Sighting.RUNNING, at=NOW)
    up = {"started_at": NOW, "stopped_at": NOW - timedelta(hours=1)}
    assert seen(sighting, running, **up).gpu.at == LATER
    unknown = seen(sighting, running)
    stopped = seen(sighting, running, started_at=NOW, stopped_at=NOW)
    for meter in (unknown, stopped):
        assert (meter.gpu.state, meter.gpu.at, meter.gpu.is_listed) == (BILLED, NOW, False)


def test_a_start_within_the_second_of_a_stop_is_distinguished_by_what_was_known() -> None:
    """The machine was seen running after that stop; only while nothing newer left it open."""
    times: dict[str, Any] = {"started_at": NOW, "stopped_at": NOW}
    going = seen(Sighting.STOPPING, seen(Sighting.RUNNING, at=NOW, **times), **times)
    assert (going.gpu.state, going.gpu.at, going.gpu.is_listed) == (BILLED, LATER, True)
    open_since = seen(Sighting.STOPPING, seen(Sighting.RUNNING, at=NOW), **times)
    assert seen(Sighting.STOPPING, open_since, **times).gpu.at == NOW


def test_a_disk_is_kept_until_the_machine_is_gone() -> None:
    """Also while it is stopped; not before it was first pulled."""
    assert seen(Sighting.BOOTING, boot=BootStage.NEW).disk.state is EXPECTED
    running = seen(Sighting.RUNNING, rootfs_gb=100)
    stopped = seen(Sighting.EXITED, running)
    assert (stopped.gpu.state, stopped.disk.state, stopped.disk_gb) == (UNBILLED, BILLED, 100)
    assert gone(stopped, LATER).disk.state is UNBILLED


def test_a_failed_creation_that_ends_stopped_may_have_no_disk() -> None:
    """It never started."""
    assert seen(Sighting.EXITED, expected(NOW), failure="x").disk == expected(NOW).disk


def test_a_machine_that_is_started_again_may_have_had_a_disk_since_it_was_created() -> None:
    """It was first seen stopped, and the provider gives no times: the start shows nothing of its disk."""
    stopped = seen(Sighting.EXITED, expected(NOW), at=NOW + timedelta(minutes=1))
    assert seen(Sighting.BOOTING, stopped, boot=BootStage.STOPPED).disk == expected(NOW).disk


def test_a_machine_that_was_taken_for_gone_may_have_no_disk() -> None:
    """The provider had denied it, and shows again that it was never pulled."""
    denied = gone(seen(Sighting.BOOTING, at=NOW, boot=BootStage.NEW), NOW)
    assert seen(Sighting.BOOTING, denied, boot=BootStage.NEW).disk.state is EXPECTED
    assert seen(Sighting.RUNNING, denied).disk.state is BILLED


def test_a_sent_start_outweighs_an_observation_that_began_before_it() -> None:
    """A listing takes a while: it may show the machine as it was before the call."""
    stopped = seen(Sighting.EXITED, at=NOW)
    sent = starting(stopped, NOW + timedelta(seconds=5))
    assert sent is not None
    assert sent.gpu.state is EXPECTED
    assert seen(Sighting.EXITED, sent, at=NOW + timedelta(seconds=2)).gpu == sent.gpu
    assert seen(Sighting.EXITED, sent, at=NOW + timedelta(seconds=8)).gpu.state is UNBILLED
    after_the_clock_was_set_back = NOW - timedelta(hours=1)
    assert seen(Sighting.EXITED, sent, at=after_the_clock_was_set_back).gpu.state is UNBILLED


def test_a_start_changes_nothing_for_a_machine_that_is_billed() -> None:
    """It runs already."""
    running = seen(Sighting.RUNNING)
    assert starting(running, LATER) is running


def test_only_what_changes_billing_disagrees() -> None:
    """The same again is not written."""
    running = seen(Sighting.RUNNING, at=NOW, rootfs_gb=100)
    assert agrees(running, shown("p", Sighting.RUNNING, rootfs_gb=100))
    assert not agrees(running, shown("p", Sighting.RUNNING, rootfs_gb=200))
    assert not agrees(running, shown("p", Sighting.RUNNING, rootfs_gb=100, stopped_at=LATER))
    assert not agrees(running, shown("p", Sighting.EXITED))
    assert not agrees(None, shown("p", Sighting.RUNNING))


@pytest.mark.parametrize("size", [-1, 0, 2**31 - 1])
def test_a_size_that_no_disk_has_is_ignored(size: int) -> None:
    """Outside input."""
    assert seen(Sighting.RUNNING, rootfs_gb=size).disk_gb is None
