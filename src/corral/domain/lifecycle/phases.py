"""What the user wants of an instance, its public statuses, and what the engine may do about it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Goal(StrEnum):
    """What the user wants of an instance."""

    RUNNING = "running"
    """It is to be ready."""
    STOPPED = "stopped"
    """It is to be stopped; the provider keeps its disk for some days."""
    GONE = "gone"
    """It is to be deleted."""


class Phase(StrEnum):
    """The status of an instance."""

    CREATING = "creating"
    """Wanted; not yet seen at the provider."""
    STARTING = "starting"
    """The provider knows it and is booting it."""
    RUNNING = "running"
    """The provider says it runs; its endpoints are not known yet."""
    HEALTH_CHECKING = "health_checking"
    """It runs; its endpoints are being probed."""
    READY = "ready"
    """It runs, its endpoints are known, and the checks passed."""
    STOPPING = "stopping"
    """It is to be stopped, or the provider is stopping it."""
    EXITED = "exited"
    """Stopped; the provider keeps its disk for some days."""
    RESTARTING = "restarting"
    """It is to be restarted, or the provider is restarting it."""
    MIGRATING = "migrating"
    """The provider moves it."""
    DELETING = "deleting"
    """To be gone; may still be billed."""
    TERMINATED = "terminated"
    """The provider says that it is gone."""
    FAILED = "failed"
    """It did not come up, or not in time. Still watched: a later sighting may heal it."""


class Action(StrEnum):
    """What the engine may do about an instance."""

    CREATE = "create"
    """Send a create call: at most one for each name."""
    INSPECT = "inspect"
    """Look it up by its id: a listing does not show endpoints and login methods."""
    PROBE = "probe"
    """Check its endpoints."""
    CONFIRM = "confirm"
    """Look up by its id an instance that a listing lacked."""
    START = "start"
    """Send a start, if one was requested: an instance that stopped by itself is left alone."""
    STOP = "stop"
    """Send a stop, and repeat it until the instance has stopped."""
    RESTART = "restart"
    """Send a restart, if one was requested."""
    DELETE = "delete"
    """Send a delete, and repeat it until the instance is gone."""


SETTLED: Final = frozenset({Phase.READY, Phase.EXITED, Phase.TERMINATED, Phase.FAILED})
"""Nothing is expected to happen by itself."""
IN_MOTION: Final = frozenset(Phase) - SETTLED
"""Something is expected to happen; the account is listed often."""
REACHABLE: Final = frozenset({Phase.RUNNING, Phase.HEALTH_CHECKING, Phase.READY})
"""Its addresses are valid; in any other phase they may belong to another machine by now."""
ENDING: Final = frozenset({Phase.STOPPING, Phase.DELETING})
"""On the way to no longer being billed."""
COMING_UP: Final = frozenset(
    {Phase.CREATING, Phase.STARTING, Phase.RUNNING, Phase.HEALTH_CHECKING, Phase.RESTARTING, Phase.MIGRATING}
)
"""On the way to ready, under a deadline."""
UP: Final = (COMING_UP | {Phase.READY}) - {Phase.CREATING}
"""It runs or comes up at the provider; an instance that is to be stopped is in none of these."""
