"""
Which phase may follow which, and what is done in each: defined as data in this file and nowhere else.

A *goal* is what the user wants. A *sighting* is what the provider says (`observation/sighting.py`). A *phase* is what
Corral says; its values are the public statuses. `AFTER_SIGHTING` and `PLAN` are total: a new member of any enum fails
the tests until its row is filled in. `TRANSITIONS` is exact: it holds the changes of phase that can happen, and no
others; a test walks the lifecycle to prove it.

An ABSENT sighting is looked up in `AFTER_SIGHTING` only after it was confirmed, and an EXITED one of a machine that
restarts only if it lasts (`decide.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.observation.sighting import Sighting

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


def all_transitions() -> str:
    """A Mermaid diagram of every transition, with its reasons, for `docs/reference/lifecycle.md`."""
    return _diagram({pair: ", or ".join(reasons) for pair, reasons in TRANSITIONS.items()})


def happy_path() -> str:
    """A Mermaid diagram of what happens to an instance if nothing goes wrong."""
    return _diagram(HAPPY_PATH)


def _diagram(labels: Mapping[tuple[Phase, Phase], str]) -> str:
    arrows = [f"    {before} --> {after}: {label}" for (before, after), label in labels.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {Phase.CREATING}", *arrows])
