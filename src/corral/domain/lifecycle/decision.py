"""The numbers by which decisions about instances are made, and what a decision is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from corral.domain.instance import Failure
from corral.domain.lifecycle.tables import Action, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The numbers of the decision."""

    settle: timedelta = timedelta(seconds=60)
    """How long a create may stay invisible in the provider's own listing, counted from when its call was surely over.
    Too short, and a slow listing bills twice; too long, and a lost create is repeated late."""
    longest_create: timedelta = timedelta(seconds=45)
    """How long one create call may take from before its intent is written, with all waiting and repetitions; a call
    that could not be sent by then is not sent. The settle time of a call whose end was not recorded is extended by it.
    Too short, and creates are given up while they wait for the rate limit; too long, and after a crash it takes
    accordingly longer until another create may be sent."""
    settle_listings: int = 2
    """Complete listings without the name that it takes after that."""
    vanish_gap: timedelta = timedelta(seconds=30)
    """Between the two look-ups that it takes to call an instance vanished."""
    vanish_checks: int = 2
    repeat_after: timedelta = timedelta(seconds=15)
    """A stop or delete of which nothing was observed for this long is sent again; the pause doubles each time."""
    repeat_at_last: timedelta = timedelta(minutes=4)
    """The longest such pause. Repeats use up the budget that would show what came of them, so they become rare."""
    urgent_probe: timedelta = timedelta(seconds=1)
    """How long a pass that overtook others waits for a machine to answer; then it comes back in its turn. Else machines
    that never answer would keep everybody from creating new ones."""
    poll: timedelta = timedelta(seconds=2)
    """How soon to look again at what is in motion."""
    first_refusal: timedelta = timedelta(seconds=5)
    """How long after a refused start the provider is asked again; doubles with each refusal."""
    last_refusal: timedelta = timedelta(seconds=60)
    failed_interval: timedelta = timedelta(seconds=60)
    """How often one that was given up, but runs, is looked at again."""
    first_recheck: timedelta = timedelta(seconds=30)
    """How long after it failed its health checks an instance that runs is checked again; the pause doubles."""
    last_recheck: timedelta = timedelta(minutes=10)
    """The longest such pause. Shorter, and machines that never answer are probed for ever to no purpose; longer, and
    one that needed an hour to load is found ready late."""
    lost_job: timedelta = timedelta(seconds=30)
    """How long after a health check should have ended its job counts as lost. Shorter than a busy queue takes, and
    checks are made twice; longer, and an instance whose job was lost becomes ready late."""
    slow_listing: timedelta = timedelta(seconds=10)
    """When listings come more rarely than this, what moves is looked at one by one as well."""
    first_lookup: timedelta = timedelta(seconds=5)
    """How long after it began to move that happens first; the pause doubles with each look."""
    last_lookup: timedelta = timedelta(minutes=4)
    """The longest such pause; a listing comes sooner then, as a rule."""

    def settle_time(self, *, create_ended: bool) -> timedelta:
        """
        How long a create in doubt must be known before a listing without its name counts.

        A call whose end was not recorded (its worker died, was paused or lost its lock) may be sent until the longest
        create is over. The settle time starts only then.
        """
        return self.settle if create_ended else self.settle + self.longest_create


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One pass's verdict: record *phase* (and *failure*) first; only then do *action*."""

    phase: Phase
    action: Action | None
    because: str
    requeue_after: timedelta | None
    """When to look again even if nothing is heard; None: only when something is."""
    failure: Failure | None = None
    is_in_doubt: bool = False
    """Whether a create call may have happened: none is sent before its machine shows or the doubt is settled."""
