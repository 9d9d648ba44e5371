"""
What this process knows about its own health, from what already happened.

A health probe must answer within a second whatever the provider or the database does, so it never asks them: the
parts report here as they succeed and fail, and probes read the last word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

CROWD: Final = 8
"""Callers waiting at once. Fewer hardly wait for each other; a page that asks for six things at once is none."""


@dataclass(slots=True, kw_only=True)
class ProcessHealth:
    """The last known health of each part."""

    started_at: datetime
    up: dict[str, bool] = field(default_factory=dict)
    """By service: whether it last worked."""
    notes: dict[str, Mapping[str, object]] = field(default_factory=dict)
    """By dependency: what else a person wants to know of it."""
    stopping: bool = False
    last_look_at: datetime | None = None
    """When the provider's whole list was last read, by any process."""

    callers_waiting: int = 0
    """Requests whose answer has not begun; an open stream is not one of them."""

    def report(self, service: str, *, up: bool, **notes: object) -> None:
        """Remember how *service* fares."""
        self.up[service] = up
        if notes:
            self.notes[service] = notes

    @property
    def is_crowded(self) -> bool:
        """Whether so many callers wait that other work should make room for them."""
        return self.callers_waiting >= CROWD

    @property
    def ready(self) -> bool:
        """Whether requests can be served: the database answers and we are not leaving."""
        return self.up.get("database", False) and not self.stopping

    @property
    def healthy(self) -> bool:
        """Whether every part works."""
        return self.ready and all(self.up.values())
