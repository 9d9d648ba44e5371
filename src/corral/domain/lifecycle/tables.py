"""
The life of one instance, as data.

Rule 1: which phase may follow which is decided in this file and nowhere else.
Rule 2: this file has no clock, no database, no provider, and never awaits.

Three words, never mixed. A *goal* is what the user wants. A *sighting* is what the provider says (`sighting.py`). A
*phase* is what Corral says; its values are the public statuses. Facts cannot be refused, so both tables are total:
every cell is a decision somebody made, and a new member of any enum fails the tests until its row is filled in.

An ABSENT sighting reaches the first table only when it is confirmed, and an EXITED one of a machine that restarts only
when it lasts; `decide.py` says when that is.
"""

from __future__ import annotations

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
    """Where Corral says an instance is."""

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
    """Ask the provider for it: at most once for each name."""
    FIND = "find"
    """Wait for a create that may have happened to show, or for proof that it did not."""
    INSPECT = "inspect"
    """Look closely: endpoints and connection details are told only of a single instance."""
    PROBE = "probe"
    """Check its endpoints."""
    CONFIRM = "confirm"
    """Ask directly whether an instance missing in the list is really gone."""
    START = "start"
    """Ask the provider to start it; only while a start is owed: one that stopped by itself is left alone."""
    STOP = "stop"
    """Ask the provider to stop it; again after a while, until it has."""
    RESTART = "restart"
    """Ask the provider to restart it; only while a restart is owed."""
    DELETE = "delete"
    """Ask the provider to delete it; again after a while, until it is gone."""


cr, st, ru, hc, rd, sp, ex, rs, mg, de, te, fa = Phase
"""The phases by two letters, in the order above, so that the tables can be read as tables."""

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
"""What a sighting makes of a phase."""

PLAN: Final[dict[Phase, dict[Goal, Action | None]]] = {
    phase: dict(zip(Goal, row, strict=True))
    for phase, row in {
        #    want RUNNING    want STOPPED  want GONE
        cr: (Action.CREATE,  Action.FIND,  Action.FIND),
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
"""What a goal asks for in a phase."""

SETTLED: Final = frozenset({rd, ex, te, fa})
"""Nothing is expected to happen by itself."""
IN_MOTION: Final = frozenset(Phase) - SETTLED
"""Something is expected to happen; the provider is looked at often."""
REACHABLE: Final = frozenset({ru, hc, rd})
"""Its addresses are its own; those of any other may belong to another machine by now."""
ENDING: Final = frozenset({sp, de})
"""On the way to no longer being billed."""
COMING_UP: Final = frozenset({cr, st, ru, hc, rs, mg})
"""On the way to ready, under a deadline."""
UP: Final = (COMING_UP | {rd}) - {cr}
"""At the provider, and there to be used: what is to be stopped is none of these."""


_BY_ITSELF: Final = {
    (cr, st): "created",
    (ru, hc): "endpoints known",
    (hc, rd): "healthy",
    (fa, rd): "healthy at last",
    (hc, fa): "unhealthy for too long",
    (cr, te): "not wanted, never created",
    (st, ex): "could not be started",
    (rs, ru): "could not be restarted",
    **{(before, st): "start asked for" for before in (ex, fa)},
    **{(before, rs): "restart asked for" for before in (ru, hc, rd, fa)},
    **{(before, sp): "stop asked for" for before in (st, ru, hc, rd, rs, mg, fa)},
    **{(before, de): "delete asked for" for before in Phase if before not in {de, te}},
}
"""Steps that no sighting causes."""

FORESEEN: Final = frozenset(_BY_ITSELF) | {
    (before, after) for before, row in AFTER_SIGHTING.items() for after in row.values() if after is not before
}
"""Every step from one phase to another that the tables know; a wish or a deadline may cause others."""


def mermaid() -> str:
    """The machine as a Mermaid diagram; `docs/reference/lifecycle.md` is made from this."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for before, row in AFTER_SIGHTING.items():
        for sighting, after in row.items():
            if after is not before:
                arrows.setdefault((before, after), []).append(sighting.value)
    lines = [f"    {a} --> {b}: sees {', '.join(seen)}" for (a, b), seen in sorted(arrows.items())]
    steps = [f"    {a} --> {b}: {why}" for (a, b), why in _BY_ITSELF.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {cr}", *lines, *steps])
