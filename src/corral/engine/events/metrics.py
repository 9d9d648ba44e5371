"""Counting what happened to instances, where it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from corral.base.metrics import Metrics
from corral.domain.events import Change, EventDraft, Progress
from corral.domain.operation import OperationStatus


def count(metrics: Metrics, changes: Sequence[Change], told: Sequence[EventDraft]) -> None:
    """
    Count *changes* and the events they made.

    It happens inside the transaction that writes them: should the database be lost at the commit, they are counted
    again when they are made again.
    """
    moves = Counter(("" if c.before is None else c.before.phase.value, c.after.phase.value) for c in changes)
    for (before, after), times in moves.items():
        if before != after:
            metrics.transitions.labels(before, after).inc(times)
    for word, times in Counter(draft.type.value for draft in told).items():
        metrics.events.labels(word).inc(times)
    for change in changes:
        if change.progress is not None:
            _count_ready(metrics, change.progress)


def _count_ready(metrics: Metrics, progress: Progress) -> None:
    """How long an operation took that has just made its instance ready."""
    before, after = progress.before, progress.after
    ready, ran = after.stamps.get("ready"), after.stamps.get("instanceRunning")
    is_news = before is not None and before.status is not after.status
    if ready is None or not is_news or after.status is not OperationStatus.COMPLETED:
        return
    metrics.ready_seconds.labels(after.kind.value).observe((ready - after.created_at).total_seconds())
    if ran is not None:
        metrics.ready_lag_seconds.labels(after.kind.value).observe((ready - ran).total_seconds())
