"""
The life of one instance, as data: which phase may follow which is defined in this file and nowhere else.

A *goal* is what the user wants. A *sighting* is what the provider says (`observation/sighting.py`). A *phase* is what
Corral says; its values are the public statuses. `AFTER_SIGHTING` and `PLAN` are total: a new member of any enum fails
the tests until its row is filled in. `TRANSITIONS` is exact: it holds the changes of phase that can happen, and no
others; a test walks the lifecycle to prove it.

An ABSENT sighting is looked up in `AFTER_SIGHTING` only after it was confirmed, and an EXITED one of a machine that
restarts only if it lasts (`decide.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from corral.domain.observation.sighting import Sighting


class Goal(StrEnum):
    """What the user wants of an instance."""

    RUNNING = "running"
    """It is to be ready."""
    STOPPED = "stopped"
    """It is to be stopped and to keep its disk."""
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
    """Stopped; its disk is kept."""
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


cr, st, ru, hc, rd, sp, ex, rs, mg, de, te, fa = Phase
"""The phases by two letters, in the order above, so that the tables stay readable."""

AFTER_SIGHTING: Final[dict[Phase, dict[Sighting, Phase]]] = {
    phase: dict(zip(Sighting, row, strict=True))
    for phase, row in {
        #    ABSENT BOOTING RUNNING RESTARTING STOPPING EXITED REMOVING MIGRATING MOVING
        cr: (fa,    st,     ru,     st,        sp,      ex,    sp,      mg,       st),
        st: (fa,    st,     ru,     st,        sp,      ex,    sp,      mg,       st),
        ru: (fa,    st,     ru,     rs,        sp,      ex,    sp,      mg,       st),
        hc: (fa,    st,     hc,     rs,        sp,      ex,    sp,      mg,       st),
        rd: (fa,    st,     rd,     rs,        sp,      ex,    sp,      mg,       st),
        sp: (fa,    st,     ru,     rs,        sp,      ex,    sp,      mg,       sp),
        ex: (fa,    st,     ru,     rs,        sp,      ex,    ex,      mg,       ex),
        rs: (fa,    st,     ru,     rs,        rs,      ex,    sp,      mg,       rs),
        mg: (fa,    st,     ru,     rs,        sp,      ex,    sp,      mg,       mg),
        de: (te,    de,     de,     de,        de,      de,    de,      de,       de),
        te: (te,    de,     de,     de,        de,      de,    de,      de,       de),
        fa: (fa,    fa,     ru,     fa,        fa,      fa,    fa,      fa,       fa),
    }.items()
}  # fmt: skip
"""The phase that follows a phase and a sighting."""

PLAN: Final[dict[Phase, dict[Goal, Action | None]]] = {
    phase: dict(zip(Goal, row, strict=True))
    for phase, row in {
        #    want RUNNING    want STOPPED  want GONE
        cr: (Action.CREATE,  None,         None),
        st: (Action.START,   Action.STOP,  Action.DELETE),
        ru: (Action.INSPECT, Action.STOP,  Action.DELETE),
        hc: (Action.PROBE,   Action.STOP,  Action.DELETE),
        rd: (None,           Action.STOP,  Action.DELETE),
        sp: (None,           Action.STOP,  Action.DELETE),
        ex: (None,           None,         Action.DELETE),
        rs: (Action.RESTART, Action.STOP,  Action.DELETE),
        mg: (None,           None,         Action.DELETE),
        de: (Action.DELETE,  Action.DELETE, Action.DELETE),
        te: (None,           None,         None),
        fa: (Action.INSPECT, Action.STOP,  Action.DELETE),
    }.items()
}  # fmt: skip
"""The action that brings an instance in a phase closer to its goal."""

SETTLED: Final = frozenset({rd, ex, te, fa})
"""Nothing is expected to happen by itself."""
IN_MOTION: Final = frozenset(Phase) - SETTLED
"""Something is expected to happen; the account is listed often."""
REACHABLE: Final = frozenset({ru, hc, rd})
"""Its addresses are valid; in any other phase they may belong to another machine by now."""
ENDING: Final = frozenset({sp, de})
"""On the way to no longer being billed."""
COMING_UP: Final = frozenset({cr, st, ru, hc, rs, mg})
"""On the way to ready, under a deadline."""
UP: Final = (COMING_UP | {rd}) - {cr}
"""It runs or comes up at the provider; an instance that is to be stopped is in none of these."""


FIRST_PHASE: Final[Mapping[Sighting, Phase]] = dict(
    #              ABSENT BOOTING RUNNING RESTARTING STOPPING EXITED REMOVING MIGRATING MOVING
    zip(Sighting, (te,    st,     ru,     rs,        sp,      ex,    de,      mg,       st), strict=True)
)  # fmt: skip
"""The phase of an instance that is known from the provider alone."""

_BY_CORRAL: Final[Mapping[tuple[Phase, Phase], str]] = {
    (cr, st): "created",
    (ru, hc): "endpoints known",
    (fa, hc): "endpoints known, late",
    (hc, rd): "healthy",
    (fa, rd): "healthy, late",
    (hc, fa): "unhealthy for too long",
    (cr, fa): "no offer, or not in time",
    **{(before, fa): "not in time, or reported as failed" for before in (st, ru, rs, mg, sp)},
    (de, te): "never created",
    (te, de): "created after all",
    (st, ex): "could not be started",
    (rs, ru): "could not be restarted",
    (fa, ex): "stopped at last",
    (ex, sp): "came up although it is to be stopped",
    **{(before, st): "start requested" for before in (ex, fa)},
    **{(before, rs): "restart requested" for before in (ru, hc, rd, fa)},
    **{(before, sp): "stop requested" for before in (st, ru, hc, rd, rs, mg, fa)},
    **{(before, de): "delete requested" for before in Phase if before not in {de, te}},
}
"""Transitions that a command, a deadline or the engine causes, and why."""


def _transitions() -> dict[tuple[Phase, Phase], tuple[str, ...]]:
    sightings: dict[tuple[Phase, Phase], list[str]] = {}
    for before, row in AFTER_SIGHTING.items():
        for sighting, after in row.items():
            if after is not before:
                sightings.setdefault((before, after), []).append(sighting.value)
    reasons: dict[tuple[Phase, Phase], tuple[str, ...]] = {}
    for pair in ((before, after) for before in Phase for after in Phase):
        by_corral = (_BY_CORRAL[pair],) if pair in _BY_CORRAL else ()
        by_provider = (f"provider says {', '.join(sightings[pair])}",) if pair in sightings else ()
        if by_corral or by_provider:
            reasons[pair] = by_corral + by_provider
    return reasons


TRANSITIONS: Final[Mapping[tuple[Phase, Phase], tuple[str, ...]]] = _transitions()
"""Every change of phase that there is, and why it happens. What is not in here is refused by every writer."""

HAPPY_PATH: Final[Mapping[tuple[Phase, Phase], str]] = {
    (cr, st): "created",
    (st, ru): "provider says running",
    (ru, hc): "endpoints known",
    (hc, rd): "healthy",
    (rd, sp): "stop requested",
    (sp, ex): "provider says exited",
    (ex, st): "start requested",
    (rd, de): "delete requested",
    (de, te): "provider says absent",
}
"""The transitions of an instance that comes up, is stopped and started again, and is deleted."""
