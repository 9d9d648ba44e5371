"""Counts changes of instances and their events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from corral.base.metrics import Metrics
from corral.domain.events import Change, EventDraft, Progress
from corral.domain.operation import OperationStatus


def count(metrics: Metrics, changes: Sequence[Change], drafts: Sequence[EventDraft]) -> None:
    """
    Count *changes* and their events.

    This runs inside the transaction that writes them: changes that are lost at the commit are counted again when they
    are made again.
    """
    transitions = Counter(("" if c.before is None else c.before.phase.value, c.after.phase.value) for c in changes)
    for (before, after), times in transitions.items():
        if before != after:
            metrics.transitions.labels(before, after).inc(times)
    for event_type, times in Counter(draft.type.value for draft in drafts).items():
        metrics.events.labels(event_type).inc(times)
    for change in changes:
        if change.progress is not None:
            _count_ready(metrics, change.progress)


def _count_ready(metrics: Metrics, progress: Progress) -> None:
    """Observe the duration of an operation that has just made its instance ready."""
    before, after = progress.before, progress.after
    ready, ran = after.stamps.get("ready"), after.stamps.get("instanceRunning")
    is_new = before is not None and before.status is not after.status
    if ready is None or not is_new or after.status is not OperationStatus.COMPLETED:
        return
    metrics.ready_seconds.labels(after.kind.value).observe((ready - after.created_at).total_seconds())
    if ran is not None:
        metrics.ready_lag_seconds.labels(after.kind.value).observe((ready - ran).total_seconds())
