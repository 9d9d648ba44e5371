"""
Pausing the processing of jobs, in all processes on one database.

The switch is one row, so it survives restarts. Every process reads it each second. While it is on, no job begins:
creates, stops, deletes, health checks and webhook deliveries wait in the queue. Running jobs may end. Observation
continues, because it is not a job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from corral.store.session.database import Connection

_WRITE: Final = """
UPDATE corral_job_pause SET paused_by = CASE WHEN paused_at IS NULL OR $1::text IS NULL THEN $1 ELSE paused_by END,
                            paused_at = CASE WHEN $1 IS NOT NULL THEN coalesce(paused_at, now()) END
RETURNING paused_at AS at, paused_by AS by
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseState:
    """Whether processing is paused."""

    at: datetime | None = None
    """Since when; None when not paused."""
    by: str | None = None
    """The name of the caller that paused it."""

    @property
    def is_paused(self) -> bool:
        """Whether no job may begin."""
        return self.at is not None


async def read(connection: Connection) -> PauseState:
    """The current state."""
    return PauseState(**await connection.fetchrow("SELECT paused_at AS at, paused_by AS by FROM corral_job_pause"))


async def write(connection: Connection, by: str | None) -> PauseState:
    """Pause processing in the name of *by*, unless it is paused already; without a name, end the pause."""
    return PauseState(**await connection.fetchrow(_WRITE, by))


class Pause:
    """The state as this process last read it."""

    def __init__(self) -> None:
        self.state = PauseState()
        self._on_resume: list[Callable[[], object]] = []

    @property
    def is_on(self) -> bool:
        """Whether no job may begin here."""
        return self.state.is_paused

    def on_resume(self, resumed: Callable[[], object]) -> None:
        """Call *resumed* whenever a pause ends."""
        self._on_resume.append(resumed)

    def note(self, state: PauseState) -> None:
        """Store the state that was read, and call the `on_resume` functions when a pause has ended."""
        was_paused, self.state = self.state.is_paused, state
        if was_paused and not state.is_paused:
            for resumed in self._on_resume:
                resumed()
