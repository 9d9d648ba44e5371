"""Responses about leases, typed: what ends an instance, when, and why."""

from __future__ import annotations

from datetime import datetime

import msgspec


class LeaseIdle(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When an instance counts as idle: every one of `signals` was below its limit, in percent, for `after`."""

    after: str
    gpu_below: float = 5.0
    cpu_below: float = 10.0
    signals: list[str] = []


class LeaseSchedule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When an instance is stopped and started: cron expressions of five fields in a time zone."""

    stop: str | None = None
    start: str | None = None
    timezone: str = "UTC"


class LeaseQuiet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Since when an instance has been idle; the values are the highest of that time, in percent."""

    since: datetime
    gpu: float | None = None
    cpu: float | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What ends an instance, and when that will be. Durations are text such as 8h or 1h30m."""

    max_duration: str | None = None
    idle: LeaseIdle | None = None
    schedule: LeaseSchedule | None = None
    on_end: str = "stop"
    grace: str = "10m"
    """The time between the notice and the end."""
    ends_at: datetime | None = None
    ends_because: str | None = None
    """max_duration, idle or schedule."""
    reason: str | None = None
    notified_at: datetime | None = None
    """When the notice was given; None while there is none."""
    extended_until: datetime | None = None
    last_used_at: datetime | None = None
    starts_at: datetime | None = None
    """When the schedule starts a stopped instance."""
    ended_by: str | None = None
    """Why the lease ended it; None if something else did."""
    quiet: LeaseQuiet | None = None


class LastUse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When an instance was last reported as used."""

    instance_id: str
    last_used_at: datetime
