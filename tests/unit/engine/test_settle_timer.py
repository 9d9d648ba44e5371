"""The settle timer uses the monotonic clock, which cannot be set."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from support.clock.clocks import SteppedClock
from support.engines.known import FRESH, NOW

from corral.domain.instance import CreateAttempt, InstanceId
from corral.domain.lifecycle.policy import Policy
from corral.engine.observe.settle_timer import SettleTimer

DOUBTFUL = replace(
    FRESH,
    create=CreateAttempt(number=1, sent_at=NOW, ended=True, doubted_at=NOW),
)


def watch() -> tuple[SettleTimer, SteppedClock]:
    clock = SteppedClock()
    return SettleTimer(clock, Policy(settle=timedelta(seconds=60), longest_create=timedelta(seconds=45))), clock


def test_a_listing_begun_a_settle_time_later_settles_a_create_in_doubt() -> None:
    """Not by one that ends then."""
    doubts, clock = watch()
    assert not doubts.settled([DOUBTFUL], began=clock.monotonic())
    clock.advance(61)

    assert not doubts.settled([DOUBTFUL], began=59.9)
    assert doubts.settled([DOUBTFUL], began=60) == {DOUBTFUL.id}


def test_setting_the_clock_changes_nothing() -> None:
    """Nor does a doubt that another machine's clock puts into the past."""
    doubts, clock = watch()
    long_ago = replace(DOUBTFUL, create=replace(DOUBTFUL.create, doubted_at=NOW - timedelta(days=1)))
    doubts.settled([long_ago], began=0)
    clock.set_by(3600)

    assert not doubts.settled([long_ago], began=clock.monotonic())


def test_the_next_attempt_has_its_own_settle_timer() -> None:
    """So is one that was settled and arose again."""
    doubts, clock = watch()
    doubts.settled([DOUBTFUL], began=0)
    clock.advance(60)
    assert not doubts.settled([replace(DOUBTFUL, create=replace(DOUBTFUL.create, number=2))], began=60)
    assert not doubts.settled([DOUBTFUL], began=60)


def test_only_creates_in_doubt_are_timed() -> None:
    """A call with a known outcome, or one not yet searched for, has no timer."""
    doubts, clock = watch()
    others = [
        replace(DOUBTFUL, create=replace(DOUBTFUL.create, doubted_at=None)),
        replace(DOUBTFUL, id=InstanceId("b"), create=replace(DOUBTFUL.create, sent_at=None)),
    ]
    doubts.settled(others, began=0)
    clock.advance(100)

    assert not doubts.settled(others, began=100)


def test_a_call_without_a_recorded_end_is_given_the_longest_create_time() -> None:
    """Its worker may be cut off and still send it; only then does the settle time start."""
    doubts, clock = watch()
    cut_off = replace(DOUBTFUL, create=replace(DOUBTFUL.create, ended=False))
    doubts.settled([cut_off], began=0)
    clock.advance(200)

    assert not doubts.settled([cut_off], began=104.9)
    assert doubts.settled([cut_off], began=105) == {cut_off.id}
