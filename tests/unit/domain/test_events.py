"""The events of a change, each published once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.engines.known import FRESH, NOW

from corral.domain.errors import Failure
from corral.domain.events import Change, EventType, Progress, event_drafts, event_of
from corral.domain.instance import OperationId
from corral.domain.leases.lease import EndCause, Lease, LeaseState, Notice
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import Operation, OperationKind, OperationStatus

START = Operation(
    id=OperationId("op_2"),
    instance_id=FRESH.id,
    kind=OperationKind.START,
    status=OperationStatus.INITIATED,
    created_at=NOW,
)
GOING_ON = replace(START, status=OperationStatus.MONITORING)


def change(before: Phase | None, after: Phase, *, code: str | None = None, progress: Progress | None = None) -> Change:
    failure = None if code is None else Failure(code=code, message="why")
    return Change(
        before=None if before is None else replace(FRESH, phase=before),
        after=replace(FRESH, phase=after, failure=failure),
        because="so",
        at=NOW,
        progress=progress,
    )


@pytest.mark.parametrize(
    ("before", "after", "code", "expected"),
    [
        (None, Phase.CREATING, None, EventType.CREATED),
        (Phase.CREATING, Phase.STARTING, None, EventType.STARTING),
        (Phase.STARTING, Phase.RUNNING, None, EventType.RUNNING),
        (Phase.RUNNING, Phase.HEALTH_CHECKING, None, EventType.HEALTH_CHECKING),
        (Phase.HEALTH_CHECKING, Phase.READY, None, EventType.READY),
        (Phase.HEALTH_CHECKING, Phase.FAILED, "HEALTH_CHECK_FAILED", EventType.FAILED),
        (Phase.STARTING, Phase.FAILED, "STARTUP_TIMEOUT", EventType.TIMEOUT),
        (Phase.READY, Phase.FAILED, "INSTANCE_VANISHED", EventType.VANISHED),
        (Phase.STOPPING, Phase.EXITED, None, EventType.STOPPED),
        (Phase.DELETING, Phase.TERMINATED, None, EventType.TERMINATED),
        (Phase.READY, Phase.DELETING, None, EventType.CHANGED),
        (Phase.READY, Phase.READY, None, EventType.CHANGED),
    ],
)
def test_a_change_is_called_by_the_phase_it_enters(
    before: Phase | None, after: Phase, code: str | None, expected: EventType
) -> None:
    """The words of the contract; staying in a phase has none."""
    assert event_of(change(before, after, code=code)) is expected


@pytest.mark.parametrize("after", Phase)
def test_no_phase_is_announced_twice(after: Phase) -> None:
    """A poll without a change publishes no event."""
    assert event_of(change(after, after)) is EventType.CHANGED


@pytest.mark.parametrize(
    ("before", "after", "moved", "expected"),
    [
        (Phase.EXITED, Phase.STARTING, (None, START), [EventType.STARTUP_INITIATED, EventType.STARTING]),
        (Phase.EXITED, Phase.EXITED, (None, START), [EventType.STARTUP_INITIATED]),
        (Phase.STARTING, Phase.RUNNING, (START, GOING_ON), [EventType.RUNNING]),
        (
            Phase.HEALTH_CHECKING,
            Phase.READY,
            (GOING_ON, replace(START, status=OperationStatus.COMPLETED)),
            [EventType.READY, EventType.STARTUP_COMPLETED],
        ),
        (
            Phase.STARTING,
            Phase.FAILED,
            (GOING_ON, replace(START, status=OperationStatus.FAILED)),
            [EventType.FAILED, EventType.STARTUP_FAILED],
        ),
        (
            Phase.STARTING,
            Phase.STOPPING,
            (GOING_ON, replace(START, status=OperationStatus.CANCELLED)),
            [EventType.CHANGED],
        ),
        (
            Phase.STARTING,
            Phase.READY,
            (None, replace(START, kind=OperationKind.CREATE)),
            [EventType.READY],
        ),
    ],
)
def test_a_start_is_announced_when_it_begins_and_ends(
    before: Phase, after: Phase, moved: tuple[Operation | None, Operation], expected: list[EventType]
) -> None:
    """Beside the phases, and for starts alone."""
    reported = event_drafts([change(before, after, progress=Progress(before=moved[0], after=moved[1]))])

    assert [one.type for one in reported] == expected


NOTICE = Notice(cause=EndCause.IDLE, reason="GPU 0 %", given_at=NOW, ends_at=NOW + timedelta(minutes=10))
LEASED = LeaseState(lease=Lease(max_duration=timedelta(hours=8)))
NOTICED = replace(LEASED, notice=NOTICE)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, LEASED, [EventType.LEASE_CHANGED]),
        (LEASED, None, [EventType.LEASE_CHANGED]),
        (LEASED, replace(LEASED, extended_until=NOW), [EventType.LEASE_CHANGED]),
        (NOTICED, replace(LEASED, extended_until=NOW), [EventType.LEASE_CHANGED, EventType.ENDING_CANCELLED]),
        (LEASED, NOTICED, [EventType.ENDING_SOON]),
        (NOTICED, replace(LEASED, notice=replace(NOTICE, ends_at=NOW)), [EventType.ENDING_SOON]),
        (NOTICED, LEASED, [EventType.ENDING_CANCELLED]),
        (LEASED, replace(LEASED, last_used_at=NOW, scheduled_at=NOW), [EventType.CHANGED]),
    ],
)
def test_a_changed_lease_is_reported_by_what_it_means(
    before: LeaseState | None, after: LeaseState | None, expected: list[EventType]
) -> None:
    """A use alone has no event of its own, and neither has what a command does to the lease beside its own events."""
    leased = replace(FRESH, phase=Phase.READY, lease=before)
    alone = Change(before=leased, after=replace(leased, lease=after), because="so", at=NOW)
    stop = replace(alone.after, operation_id=OperationId("op_2"), phase=Phase.STOPPING)

    assert [draft.type for draft in event_drafts([alone])] == expected
    assert [draft.type for draft in event_drafts([replace(alone, after=stop)])] == [EventType.CHANGED]
