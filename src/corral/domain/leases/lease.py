"""The record of a lease: what was requested, and what has happened to it since."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final


class Signal(StrEnum):
    """What shows that an instance is used."""

    GPU = "gpu"
    CPU = "cpu"
    LAST_USED = "lastUsed"


class EndAction(StrEnum):
    """What the end of a lease does."""

    STOP = "stop"
    DELETE = "delete"


class EndCause(StrEnum):
    """Why a lease ends, in the order of precedence of ends that fall on the same instant."""

    MAX_DURATION = "max_duration"
    SCHEDULE = "schedule"
    IDLE = "idle"


ALL_SIGNALS: Final = frozenset(Signal)
DEFAULT_GRACE: Final = timedelta(minutes=10)
"""Shorter, and a person who gets the notice has no time to extend; longer, and an idle machine is billed longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRule:
    """When an instance counts as idle."""

    after: timedelta
    gpu_below: float = 5.0
    cpu_below: float = 10.0
    """Percent; a value at the limit is activity."""
    signals: frozenset[Signal] = ALL_SIGNALS


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When an instance is stopped and started: cron expressions of five fields in the time zone *timezone*."""

    stop: str | None = None
    start: str | None = None
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """What was requested."""

    max_duration: timedelta | None = None
    """Counted from when it became ready."""
    idle: IdleRule | None = None
    schedule: Schedule | None = None
    on_end: EndAction = EndAction.STOP
    """At the end of the maximum duration and of the idle time; a schedule always stops."""
    grace: timedelta = DEFAULT_GRACE
    """The least time between the notice and the end."""

    @property
    def is_empty(self) -> bool:
        """Whether it neither ends nor starts anything."""
        return self.max_duration is None and self.idle is None and self.schedule is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A published notice that the instance will be stopped or deleted."""

    cause: EndCause
    reason: str
    given_at: datetime
    ends_at: datetime
    awaited_since: datetime | None = None
    """Since when the end of an idle instance, which is due, waits for a measurement or for sessions to report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSummary:
    """That an instance is quiet, for the views only: no decision reads it."""

    quiet_since: datetime
    """Since when every measurement is below its limit."""
    gpu: float | None
    cpu: float | None
    """The highest values since then, in percent; None: not requested."""
    judged_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """A lease and what has happened to it."""

    lease: Lease = field(default_factory=Lease)
    extended_until: datetime | None = None
    """Neither the maximum duration nor the idle rule nor the schedule ends it before this."""
    last_used_at: datetime | None = None
    """The last reported use: by a request of a client, or the heartbeat of a session."""
    notice: Notice | None = None
    scheduled_at: datetime | None = None
    """Up to when the schedule was applied: a stop or start due by then is past. None: it was never applied."""
    ended_by: EndCause | None = None
    """Why the lease stopped it; None: it was not the lease, or it was started since."""
    idle: IdleSummary | None = None
    """Set while it is quiet and has an idle rule with measurements."""
