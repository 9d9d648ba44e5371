"""Options that say when an instance ends, of `corral create` and `corral lease`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final
from zoneinfo import available_timezones

import typer

from corral_client.models.orders import IdleOrder, LeaseOrder, ScheduleOrder

NONE: Final = "none"
"""The value that removes a part of a lease, or refuses the service's default."""
_WHEN: Final = "When it ends"


class OnEnd(StrEnum):
    """What the end of a lease does."""

    STOP = "stop"
    DELETE = "delete"


def offered_durations(incomplete: str) -> list[str]:
    """Durations for completion."""
    return [text for text in ("30m", "1h", "4h", "8h", "1d", NONE) if text.startswith(incomplete)]


def offered_zones(incomplete: str) -> list[str]:
    """Time zones for completion."""
    return sorted(zone for zone in available_timezones() if zone.startswith(incomplete))


Ttl = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="End it so long after it became ready, such as 8h or 1d12h; none for no such end.",
        rich_help_panel=_WHEN,
        autocompletion=offered_durations,
    ),
]
Idle = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="End it after so long without use (GPU, CPU, sessions), such as 30m; none for no such end.",
        rich_help_panel=_WHEN,
        autocompletion=offered_durations,
    ),
]
AtEnd = Annotated[
    OnEnd | None, typer.Option("--on-end", help="What the end does (stop).", rich_help_panel=_WHEN, show_choices=True)
]
Grace = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Between the notice and the end (10m).", rich_help_panel=_WHEN),
]
StopAt = Annotated[
    str | None,
    typer.Option(metavar="CRON", help='Stop it then, such as "0 20 * * 1-5"; none for never.', rich_help_panel=_WHEN),
]
StartAt = Annotated[
    str | None,
    typer.Option(metavar="CRON", help="Start it then, if its lease stopped it.", rich_help_panel=_WHEN),
]
Timezone = Annotated[
    str | None,
    typer.Option(
        metavar="ZONE",
        help="Time zone of the two, such as Europe/Berlin (UTC).",
        rich_help_panel=_WHEN,
        autocompletion=offered_zones,
    ),
]


def lease_order(
    *,
    ttl: str | None,
    idle: str | None,
    on_end: OnEnd | None,
    grace: str | None,
    stop_at: str | None,
    start_at: str | None,
    timezone: str | None,
) -> LeaseOrder:
    """The part of a request that the options make; empty without options."""
    order = LeaseOrder()
    if ttl is not None:
        order["max_duration"] = None if ttl == NONE else ttl
    if idle is not None:
        order["idle"] = None if idle == NONE else IdleOrder(after=idle)
    if on_end is not None:
        order["on_end"] = on_end.value
    if grace is not None:
        order["grace"] = grace
    schedule = _schedule(stop_at, start_at, timezone)
    if schedule:
        order["schedule"] = None if set(schedule.values()) == {None} else schedule
    return order


def _schedule(stop_at: str | None, start_at: str | None, timezone: str | None) -> ScheduleOrder:
    """The schedule of the options; None for a part that is removed."""
    order = ScheduleOrder()
    if stop_at is not None:
        order["stop"] = None if stop_at == NONE else stop_at
    if start_at is not None:
        order["start"] = None if start_at == NONE else start_at
    if timezone is not None:
        order["timezone"] = timezone
    return order
