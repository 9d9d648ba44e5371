"""Leases in words: when an instance ends and why, what was requested, and until when its disk is kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from corral.cli.output import clock_time, span
from corral.domain.leases.durations import read_duration, spoken
from corral_client import Instance, Lease

_WHOLE_MINUTES_FROM: Final = 120.0
"""Seconds; a longer time is shown without its seconds."""
_CAUSES: Final = {"max_duration": "max duration"}
_IDLE: Final = "idle"


def ends(instance: Instance, now: datetime) -> str | None:
    """When and why it ends, such as `in 12 min: idle`; None if nothing will end it."""
    lease = instance.lease
    if lease is None or lease.ends_at is None:
        return None
    return f"{_in(lease.ends_at, now)}: {_cause(lease)}"


def ends_for_certain(instance: Instance, now: datetime) -> str | None:
    """
    As `ends`, but of an idle instance only after the notice.

    Until then, activity removes the end without an event; a table that is renewed by events would still show it.
    """
    lease = instance.lease
    is_expected = lease is not None and lease.ends_because == _IDLE and lease.notified_at is None
    return None if is_expected else ends(instance, now)


def lease_facts(instance: Instance, now: datetime) -> dict[str, str | None]:
    """What `corral show` and `corral lease` print, by label; None is not printed."""
    lease = instance.lease
    kept = instance.data_kept_until
    facts = {} if lease is None else _facts(instance, lease, now)
    return {**facts, "disk": None if kept is None else f"kept until {clock_time(kept)}, {_in(kept, now)}"}


def _facts(instance: Instance, lease: Lease, now: datetime) -> dict[str, str | None]:
    end = ends(instance, now)
    reason = _reason(lease, now)
    return {
        "lease": requested(lease),
        "ends": None if end is None else f"{end}, at {clock_time(lease.ends_at)}" + (f" ({reason})" if reason else ""),
        "notified": None if lease.notified_at is None else clock_time(lease.notified_at),
        "extended": None if lease.extended_until is None else f"until {clock_time(lease.extended_until)}",
        "last used": None if lease.last_used_at is None else clock_time(lease.last_used_at),
        "ended by": None if lease.ended_by is None else f"its lease: {_named(lease.ended_by)}",
        "starts": None if lease.starts_at is None else f"{_in(lease.starts_at, now)}, at {clock_time(lease.starts_at)}",
    }


def requested(lease: Lease) -> str:
    """What was requested, on one line."""
    parts = list[str]()
    if lease.max_duration is not None:
        parts.append(f"at most {lease.max_duration}")
    if lease.idle is not None:
        parts.append(f"idle for {lease.idle.after}")
    if lease.schedule is not None:
        times = {"stop": lease.schedule.stop, "start": lease.schedule.start}
        words = [f"{word} at {time}" for word, time in times.items() if time is not None]
        parts.append(f"{', '.join(words)} ({lease.schedule.timezone})")
    return f"{'; '.join(parts)}; {lease.on_end} {lease.grace} after a notice"


def _reason(lease: Lease, now: datetime) -> str | None:
    """Why it ends; for an instance that is still watched, for how much of the time it has been idle."""
    quiet = lease.quiet
    if quiet is None or lease.idle is None or lease.notified_at is not None:
        return lease.reason
    values = {"GPU": quiet.gpu, "CPU": quiet.cpu}
    measured = [f"{name} {value:.0f} %" for name, value in values.items() if value is not None]
    after = read_duration(lease.idle.after)
    return f"{', '.join(measured) or 'not used'} for {_rounded(min(now - quiet.since, after))} of {spoken(after)}"


def _in(at: datetime, now: datetime) -> str:
    return f"in {_rounded(at - now)}" if at > now else "now"


def _rounded(passed: timedelta) -> str:
    seconds = passed.total_seconds()
    return span(seconds // 60 * 60 if seconds >= _WHOLE_MINUTES_FROM else seconds)


def _cause(lease: Lease) -> str:
    return _named(lease.ends_because or "its lease")


def _named(cause: str) -> str:
    return _CAUSES.get(cause, cause)
