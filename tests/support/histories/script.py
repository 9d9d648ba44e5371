"""
What goes wrong, and at which step: a test's plan for the outside world.

A *step* is a call to the provider or a commit to the database: the only places where Corral touches anything that
outlives it. A script holds one mishap (or none) for each coming step, so that a test can hurt exactly the step it means
and Hypothesis can shrink a history to the steps that matter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, NoReturn, TypeVar

from corral.domain.errors import StoreUnavailableError

T = TypeVar("T")


class Killed(BaseException):  # not an error: the process is no more
    """The process died here; nothing of it is left but what it had committed and what it had sent."""


class Mishap(StrEnum):
    """What can happen at a step."""

    NONE = "none"
    # The process, at any step.
    KILLED_BEFORE = "killed_before"
    KILLED_AFTER = "killed_after"
    # A commit.
    AWAY_BEFORE = "away_before"
    """The database went away, and nothing was committed."""
    AWAY_AFTER = "away_after"
    """The database went away, but had committed."""
    PAUSED = "paused"
    """It was committed; then the process was paused for minutes and lost its locks, while other workers went on."""
    # A call that was not carried out, and says so.
    REFUSED = "refused"
    THROTTLED = "throttled"
    FRONT_PAGE = "front_page"
    UNAUTHORISED = "unauthorised"
    # A call with an unknown outcome.
    TIMED_OUT = "timed_out"
    """It never arrived."""
    LATE = "late"
    """It arrives (unless it only looks, or deletes) seconds after we gave it up."""
    ERROR_500 = "error_500"
    LOST_REPLY = "lost_reply"
    DONE_500 = "done_500"
    GARBAGE = "garbage"
    # What happens while a call waits for its permit, before it is checked for the last time and sent.
    WAITED = "waited"
    """Minutes pass, and an observer looks."""
    STOPPED_WAITING = "stopped_waiting"
    """The worker is stopped."""
    DELETED_WAITING = "deleted_waiting"
    """The user deletes everything."""
    # What others do while a call is under way.
    HELD_BACK = "held_back"
    """It waits its turn for longer than any doubt lasts, while the observer looks; then it is done, not answered."""
    HELD_BACK_KILLED = "held_back_killed"
    """The same, and then the process dies."""
    SEEN_MEANWHILE = "seen_meanwhile"
    """Time passes, an observer looks and other workers work after it was carried out, before its answer is recorded."""
    UNWISHED_MEANWHILE = "unwished_meanwhile"
    """The user deletes everything after it was carried out, before its answer is recorded."""
    PASSED_MEANWHILE = "passed_meanwhile"
    """Another worker makes its passes before the answer is used."""


OF_COMMITS = (Mishap.KILLED_BEFORE, Mishap.KILLED_AFTER, Mishap.AWAY_BEFORE, Mishap.AWAY_AFTER, Mishap.PAUSED)
BEFORE_SENDING = frozenset({Mishap.REFUSED, Mishap.THROTTLED, Mishap.FRONT_PAGE, Mishap.UNAUTHORISED})
UNSENT = BEFORE_SENDING | {Mishap.TIMED_OUT, Mishap.LATE, Mishap.ERROR_500}
WAITING = frozenset({Mishap.WAITED, Mishap.STOPPED_WAITING, Mishap.DELETED_WAITING})
HELD_BACK = frozenset({Mishap.HELD_BACK, Mishap.HELD_BACK_KILLED})
SPOILT = frozenset({Mishap.HELD_BACK, Mishap.LOST_REPLY, Mishap.DONE_500, Mishap.GARBAGE})
MEANWHILE = frozenset({Mishap.SEEN_MEANWHILE, Mishap.UNWISHED_MEANWHILE, Mishap.PASSED_MEANWHILE})
OF_CALLS = tuple(m for m in Mishap if m not in {Mishap.NONE, Mishap.AWAY_BEFORE, Mishap.AWAY_AFTER, Mishap.PAUSED})


CHANGING = frozenset({"create", "start", "restart", "stop", "delete"})
"""The calls that change something at the provider."""


class Either(NamedTuple):
    """What happens to a step, whichever it is: a call, or a commit."""

    at_call: Mishap
    at_commit: Mishap


@dataclass(kw_only=True)
class Script:
    """The mishaps to come, in the order of the steps; past its end all goes well."""

    mishaps: list[Mishap | Either] = field(default_factory=list[Mishap | Either])
    at_change: Mishap = Mishap.NONE
    """What happens to the next call that changes something at the provider, wherever it comes."""
    met: set[tuple[str, Mishap]] = field(default_factory=set[tuple[str, Mishap]])
    """The mishaps so far, each with its step."""
    steps: list[str] = field(default_factory=list[str])
    """The steps so far: a call by its endpoint, or "commit"."""
    meanwhile: Callable[[Mishap], Awaitable[None]] | None = None
    """What others do while the process is paused."""
    is_killed: bool = False
    """Whether the process died: what is left of it takes no further step. The next process starts with False."""
    _silenced: int = 0

    def write(self, mishaps: Iterable[Mishap | Either], *, at_change: Mishap = Mishap.NONE) -> None:
        """Put *mishaps* and *at_change* in place of those not yet met."""
        self.mishaps = list(mishaps)
        self.at_change = at_change

    def at_call(self, endpoint: str) -> Mishap:
        """What happens to the call that is about to be made."""
        found = self._next(endpoint)
        mishap = found.at_call if isinstance(found, Either) else found
        if endpoint in CHANGING and self.at_change is not Mishap.NONE and not self._silenced and not self.is_killed:
            mishap, self.at_change = self.at_change, Mishap.NONE
        return self._noted(endpoint, mishap, OF_CALLS)

    async def committing(self, commit: Callable[[], Awaitable[T]], roll_back: Callable[[], Awaitable[None]]) -> T:
        """Commit, or not, as the script says."""
        found = self._next("commit")
        mishap = self._noted("commit", found.at_commit if isinstance(found, Either) else found, OF_COMMITS)
        if mishap in {Mishap.KILLED_BEFORE, Mishap.AWAY_BEFORE}:
            await roll_back()
        if mishap is Mishap.KILLED_BEFORE:
            self.kill()
        if mishap is Mishap.AWAY_BEFORE:
            raise StoreUnavailableError("the database went away before the commit")
        done = await commit()
        if mishap is Mishap.KILLED_AFTER:
            self.kill()
        if mishap is Mishap.AWAY_AFTER:
            raise StoreUnavailableError("the database went away after the commit")
        if mishap is Mishap.PAUSED and self.meanwhile is not None:
            await self.meanwhile(mishap)
        return done

    def kill(self) -> NoReturn:
        """The process dies here."""
        self.is_killed = True
        raise Killed

    def threatens_commit(self) -> bool:
        """Whether the next step, should it be a commit, goes wrong."""
        if self._silenced:
            return False
        if self.is_killed or not self.mishaps:
            return self.is_killed
        first = self.mishaps[0]
        return (first.at_commit if isinstance(first, Either) else first) in OF_COMMITS

    def silently(self) -> _Silence:
        """A block with steps that are not in the script: others make them, and all succeed."""
        return _Silence(self)

    def _next(self, step: str) -> Mishap | Either:
        if self._silenced:
            return Mishap.NONE
        if self.is_killed:
            return Mishap.KILLED_BEFORE
        self.steps.append(step)
        return self.mishaps.pop(0) if self.mishaps else Mishap.NONE

    def _noted(self, step: str, mishap: Mishap, possible: tuple[Mishap, ...]) -> Mishap:
        """*mishap* if such a step can have it, else none."""
        if mishap not in possible:
            return Mishap.NONE
        if not self.is_killed:
            self.met.add((step, mishap))
        return mishap


class _Silence:
    def __init__(self, script: Script) -> None:
        self._script = script

    def __enter__(self) -> None:
        self._script._silenced += 1

    def __exit__(self, *_: object) -> None:
        self._script._silenced -= 1
