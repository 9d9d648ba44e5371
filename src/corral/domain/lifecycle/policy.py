"""Every number that decisions about instances depend on: deadlines, settle time, counts, pauses between calls."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

CREATE_WITHIN: Final = timedelta(minutes=20)
"""How long a create may take until the instance is ready. Shorter, and a large image is given up while it is pulled;
longer, and a machine that never comes up is reported later and billed meanwhile."""
FIRST_RETRY_SECONDS: Final = 5.0
LAST_RETRY_SECONDS: Final = 60.0
"""Pauses between tries of a create that waits: the first, doubling to the last. Shorter, and creates that wait use up
the rate limit; longer, and a machine that became free is taken by another customer."""
ANSWER_WITHIN: Final = timedelta(seconds=15)
"""How long a stop or delete counts as under way if its end was not recorded, because its worker died. Shorter, and an
observation from before the call may lead to a repeat that was not needed; longer, and a call that was never sent is
sent later."""
FIRST_REPEAT: Final = timedelta(seconds=2)
"""The pause before the second repeat of a stop or delete (the first has none), which doubles with each up to
`Policy.repeat_at_last`. Shorter, and a list that lags by a minute causes dozens of calls; longer, and a machine is
billed longer if its stop was dropped twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The numbers that tests and installations may set."""

    settle: timedelta = timedelta(seconds=60)
    """How long a create may stay invisible in the provider's own listing, counted from when its call was surely over.
    Too short, and a slow listing bills twice; too long, and a lost create is repeated late."""
    longest_create: timedelta = timedelta(seconds=45)
    """How long one create call may take from before its intent is written, with all waiting and repetitions; a call
    that could not be sent by then is not sent. If the end of a call was not recorded, its settle time is longer by it.
    Too short, and creates are given up while they wait for the rate limit; too long, and after a crash it takes
    accordingly longer until another create may be sent."""
    settle_listings: int = 2
    """Complete listings without its name, begun after the settle time, after which a lost create counts as nothing."""
    vanish_gap: timedelta = timedelta(seconds=30)
    """Between the lookups that confirm that an instance vanished."""
    vanish_checks: int = 2
    """How many such lookups it takes."""
    repeat_after: timedelta = timedelta(seconds=15)
    """A stop or delete whose outcome is not known and of which nothing was observed for this long is sent again; the
    pause doubles each time."""
    repeat_accepted: timedelta = timedelta(minutes=2)
    """The same for one that the provider accepted. Shorter, and many ends in one minute are repeated before the rate
    limit admits the lookups that show their effect; longer, and a stop that was accepted, lost and not looked at is
    billed longer."""
    repeat_at_last: timedelta = timedelta(minutes=4)
    """The longest such pause. Repeats use up the rate limit that observations of their effect need."""
    urgent_probe: timedelta = timedelta(seconds=1)
    """How long an urgent reconcile waits for a machine to respond; then it runs again in its turn. Also how long the
    first check may delay the record of the endpoints. Longer, and machines that never respond delay all creates, and
    their endpoints are shown later; shorter, and slow machines become ready later."""
    poll: timedelta = timedelta(seconds=2)
    """How soon to reconcile again while the provider is expected to act."""
    first_refusal: timedelta = timedelta(seconds=5)
    """How long after a refusal a start is sent again; doubles with each refusal."""
    last_refusal: timedelta = timedelta(seconds=60)
    failed_interval: timedelta = timedelta(seconds=60)
    """How often a failed instance that runs is inspected again."""
    first_recheck: timedelta = timedelta(seconds=30)
    """How long after it failed its health checks an instance that runs is checked again; the pause doubles."""
    last_recheck: timedelta = timedelta(minutes=10)
    """The longest such pause. Shorter, and machines that never respond are probed often for nothing; longer, and one
    that needed an hour to load is found ready late."""
    lost_job: timedelta = timedelta(seconds=30)
    """How long after a health check should have ended its job counts as lost. Shorter than a busy queue takes, and
    checks are made twice; longer, and an instance whose job was lost becomes ready late."""
    slow_listing: timedelta = timedelta(seconds=10)
    """If listings are further apart than this, instances that change are looked up one by one as well."""
    first_lookup: timedelta = timedelta(seconds=5)
    """How long after the change began the first lookup is made; the pause doubles with each."""
    last_lookup: timedelta = timedelta(minutes=4)
    """The longest such pause; usually a listing comes sooner."""

    def settle_time(self, *, create_ended: bool) -> timedelta:
        """
        How long a create in doubt must be known before a listing without its name counts.

        If the end of the call was not recorded (its worker died, was paused or lost its lock), it may be sent until the
        longest create is over. The settle time starts only then.
        """
        return self.settle if create_ended else self.settle + self.longest_create
