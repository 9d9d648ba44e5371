"""Counting what happened to instances, where it is told."""

from __future__ import annotations

from collections.abc import Sequence

from corral.domain.events import Change, Happening, Progress
from corral.domain.operation import OperationStatus
from corral.telemetry import Metrics


def count(metrics: Metrics, changes: Sequence[Change], told: Sequence[Happening]) -> None:
    """
    Count *changes* and the events they made.

    It happens inside the transaction that writes them: should the database be lost at the commit, they are counted
    again when they are made again.
    """
    for change in changes:
        before = "" if change.before is None else change.before.phase.value
        if before != change.after.phase.value:
            metrics.transitions.labels(before, change.after.phase.value).inc()
        if change.progress is not None:
            _count_ready(metrics, change.progress)
    for happening in told:
        metrics.events.labels(happening.type.value).inc()


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
