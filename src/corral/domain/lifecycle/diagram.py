"""The lifecycle as Mermaid diagrams; `docs/reference/lifecycle.md` is made from these."""

from __future__ import annotations

from collections.abc import Mapping

from corral.domain.lifecycle.tables import HAPPY_PATH, TRANSITIONS, Phase


def all_transitions() -> str:
    """Every transition of the table, with its reasons."""
    return _diagram({pair: ", or ".join(reasons) for pair, reasons in TRANSITIONS.items()})


def happy_path() -> str:
    """What happens to an instance if nothing goes wrong."""
    return _diagram(HAPPY_PATH)


def _diagram(labels: Mapping[tuple[Phase, Phase], str]) -> str:
    arrows = [f"    {before} --> {after}: {label}" for (before, after), label in labels.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {Phase.CREATING}", *arrows])
