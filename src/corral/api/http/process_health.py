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
"""Callers waiting at once that count as a crowd: more than one page sends at a time."""


@dataclass(slots=True, kw_only=True)
class ProcessHealth:
    """The last known health of each part."""

    started_at: datetime
    up: dict[str, bool] = field(default_factory=dict)
    """By service: whether it last worked."""
    notes: dict[str, Mapping[str, object]] = field(default_factory=dict)
    """By dependency: more facts for people."""
    stopping: bool = False
    last_look_at: datetime | None = None
    """When the provider's whole list was last read, by any process."""

    callers_waiting: int = 0
    """Requests without a response yet; an open stream is not counted."""

    def report(self, service: str, *, up: bool, **notes: object) -> None:
        """Record whether *service* works."""
        self.up[service] = up
        if notes:
            self.notes[service] = notes

    @property
    def is_crowded(self) -> bool:
        """Whether so many callers wait that background work should pause."""
        return self.callers_waiting >= CROWD

    @property
    def ready(self) -> bool:
        """Whether requests can be served: the database responds and the process is not stopping."""
        return self.up.get("database", False) and not self.stopping

    @property
    def healthy(self) -> bool:
        """Whether every part works."""
        return self.ready and all(self.up.values())
