"""The rate limiter, for every sequence of requests, refusals and waits."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from corral.cloud.rate_limit.learned_limit import LEAST_LIMIT, MOST_LIMIT
from corral.cloud.rate_limit.rate_limiter import URGENT_SECONDS, Grant, RateLimiter
from corral.cloud.rate_limit.state import RateLimiterState, decoded, encoded

START = 1_890_000_000.0
MINUTE = 60.0


class BudgetMachine(RuleBasedStateMachine):
    """Several processes ask one state; whatever happens, no minute holds more than its limit."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = RateLimiter(None)
        self.state = RateLimiterState()
        self.now = START
        self.given: list[tuple[float, int]] = []
        self.fixed: int | None = None
        self.on_top_at: float | None = None

    @initialize(fixed=st.one_of(st.none(), st.sampled_from([1, 2, 7, 30, 100, 3000])))
    def begin(self, fixed: int | None) -> None:
        self.budget, self.fixed = RateLimiter(fixed), fixed

    @rule(
        urgent=st.sampled_from([0, 0, 1, 5, 500]),
        changes=st.sampled_from([0, 1, 5, 500]),
        lookups=st.sampled_from([0, 0, 1, 5, 500]),
        reads=st.sampled_from([0, 1, 5, 500]),
    )
    def take(self, urgent: int, changes: int, lookups: int, reads: int) -> None:
        self.state, grant = self.budget.take(
            self.state, self.now, urgent=urgent, changes=changes, lookups=lookups, reads=reads
        )
        self.state = decoded(encoded(self.state), self.now)
        assert 0 <= grant.urgent <= urgent
        assert grant.changes == 0 or grant.urgent == urgent
        assert 0 <= grant.changes <= changes
        assert 0 <= grant.lookups <= lookups
        assert 0 <= grant.reads <= reads
        assert grant.reads <= 1 or (grant.changes, grant.lookups) == (changes, lookups)
        assert min(changes, grant.lookups) <= grant.changes + 1, "each gets half if there is not room for both"
        assert min(lookups, grant.changes) <= grant.lookups + 1
        assert grant.wait_seconds > 0 or grant.total == urgent + changes + lookups + reads
        assert grant.room_seconds > 0 or (grant.changes, grant.lookups) == (changes, lookups)
        if grant.total:
            self.given.append((self.now, grant.total))
        in_the_last_minute = sum(count for at, count in self.given if at > self.now - MINUTE - 1)
        # One stop or delete may be sent on top of a limit that is an estimate, every two seconds.
        on_top = 1 if self.fixed is None and grant.urgent else 0
        if grant.total > on_top:
            assert in_the_last_minute <= grant.limit + on_top
        if grant.total and in_the_last_minute > grant.limit:
            assert on_top
            assert self.on_top_at is None or self.now - self.on_top_at >= URGENT_SECONDS - 0.01
            self.on_top_at = self.now

    @rule(seconds=st.one_of(st.floats(0, 2), st.sampled_from([0.5, 1.0, 20.0, 59.0, 60.0, 61.0, 62.0, 300.0])))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(retry_after=st.sampled_from([None, 0.0, 5.0, 60.0]))
    def throttle(self, retry_after: float | None) -> None:
        before = self.state.limit
        self.state = self.budget.throttled(self.state, self.now, granted_at=self.now, retry_after_seconds=retry_after)
        assert self.state.limit <= max(before * 1.1**100, LEAST_LIMIT)
        assert LEAST_LIMIT <= self.state.limit <= MOST_LIMIT
        if retry_after:
            _, grant = self.budget.take(self.state, self.now + retry_after - 0.1, changes=1, reads=1)
            assert (grant.changes, grant.reads) == (0, 0)

    @rule()
    def asking_again_after_the_wait_helps(self) -> None:
        """A wait that leads nowhere would be a busy loop or a standstill."""
        now, state = self.now, self.state
        for _ in range(10):
            state, grant = self.budget.take(state, now, changes=1, reads=0)
            if grant.changes:
                return
            now += grant.wait_seconds
        raise AssertionError("a change was never served")


TestBudgetMachine = BudgetMachine.TestCase


def take(
    budget: RateLimiter, state: RateLimiterState, now: float, *, changes: int = 0, reads: int = 0
) -> tuple[RateLimiterState, Grant]:
    return budget.take(state, START + now, changes=changes, reads=reads)


def test_reads_leave_room_for_changes_and_are_spread_evenly() -> None:
    """However hard reads push for minutes, a burst of creates goes out at once."""
    budget, state, given = RateLimiter(300), RateLimiterState(), []
    for tenth in range(1200):
        state, grant = take(budget, state, tenth / 10, reads=1000)
        given.append(grant.reads)
    state, creates = take(budget, state, 120.0, changes=60)

    assert given[0] == 30
    assert max(given[1:]) <= 1
    assert 190 <= sum(given[600:]) + 30 <= 222
    assert creates.changes >= 58


@pytest.mark.parametrize("changes", [30, 100])
def test_reads_leave_more_room_while_there_are_many_changes(changes: int) -> None:
    """In the third minute no change waits, though as many reads wait as the limit admits; two fifths are read."""
    limiter, state, reads = RateLimiter(300), RateLimiterState(), 0
    for step in range(3 * changes):
        now = START + step * MINUTE / changes
        state, grant = limiter.take(state, now, changes=1, reads=300)
        if step >= 2 * changes:
            reads += grant.reads
            assert grant.changes == 1
    assert reads >= 120


def test_a_flood_of_changes_leaves_reads_a_tenth_evenly() -> None:
    """However many creates wait, reads that check sent creates still get through."""
    budget, state, reads = RateLimiter(100), RateLimiterState(), []
    for tenth in range(620):
        state, grant = take(budget, state, tenth / 10, changes=1000, reads=5)
        reads += [tenth / 10] * grant.reads
    gaps = [later - earlier for earlier, later in itertools.pairwise(reads)]

    assert sum(state.counts) == 96, "four are kept for stops and deletes"
    assert len(reads) == 10
    assert all(6.1 < gap < 6.4 for gap in gaps)


def test_a_crowd_of_creates_leaves_room_for_stops_and_deletes() -> None:
    """One call in 25 is theirs; when that is used up they are served before creates as room comes free."""
    budget, state = RateLimiter(100), RateLimiterState()
    state, creates = budget.take(state, START, changes=1000, reads=0)
    state, urgent = budget.take(state, START + 1, urgent=6, changes=1000, reads=0)
    state, still = budget.take(state, START + 1 + urgent.wait_seconds - 0.1, urgent=2, changes=1000, reads=0)
    state, freed = budget.take(state, START + 1 + urgent.wait_seconds, urgent=2, changes=1000, reads=0)

    assert (creates.changes, urgent.urgent, urgent.changes) == (86, 4, 0)
    assert (still.urgent, still.changes) == (0, 0)
    assert freed.urgent == 2


def test_reads_leave_room_for_stops_and_deletes_while_creates_wait() -> None:
    """Reads that had their tenth already do not use up what is kept for stops and deletes."""
    budget, state = RateLimiter(100), RateLimiterState()
    state, _ = take(budget, state, 0.0, reads=20)
    for tenth in range(250):
        state, _ = take(budget, state, 1 + tenth / 10, changes=500, reads=5)
    state, grant = budget.take(state, START + 27, urgent=6, changes=500, reads=5)

    assert grant.urgent == 4


def test_stops_and_deletes_are_sent_right_after_a_spell_of_throttling() -> None:
    """Calls of the last minute, sent under a higher limit or refused, do not keep them back for another minute."""
    budget, state, sent = RateLimiter(None), RateLimiterState(), []
    state, _ = budget.take(state, START, changes=100, reads=50)
    for tenth in range(400):
        now = START + 1 + tenth / 10
        state, grant = budget.take(state, now, urgent=2, changes=5, reads=5)
        if grant.urgent:
            sent.append(tenth / 10)
            if tenth < 300:
                state = budget.throttled(state, now, granted_at=grant.at, retry_after_seconds=None)
    gaps = [later - earlier for earlier, later in itertools.pairwise(sent)]

    assert budget.limit(state) == LEAST_LIMIT
    assert max(gaps) <= 2.1
    assert len(sent) <= 25, "a provider that throttles is not asked at every chance"


def test_deletes_refused_beyond_the_limit_do_not_lower_it() -> None:
    """They are sent although the limit is used up: that the provider refuses them shows nothing about the limit."""
    budget, state = RateLimiter(None), RateLimiterState()
    state, creates = budget.take(state, START, changes=120, reads=0)
    for _ in range(20):
        state = budget.throttled(state, START + 1, granted_at=creates.at, retry_after_seconds=None)
    measured = budget.limit(state)
    for tenth in range(500):
        now = START + 2 + tenth / 10
        state, grant = budget.take(state, now, urgent=3, changes=0, reads=0)
        for number in range(grant.urgent):
            is_beyond = number >= grant.urgent - grant.beyond
            state = budget.throttled(state, now, granted_at=grant.at, retry_after_seconds=None, is_beyond=is_beyond)

    assert measured == 100
    assert budget.limit(state) == 100


def test_a_limit_that_was_set_is_kept_by_stops_and_deletes() -> None:
    """A number that a person gave is not an estimate."""
    budget, state = RateLimiter(30), RateLimiterState()
    state, first = budget.take(state, START, urgent=100, changes=0, reads=0)
    state, then = budget.take(state, START + 30, urgent=100, changes=0, reads=0)

    assert (first.urgent, then.urgent) == (27, 0)


def test_reads_wait_for_their_share_when_changes_took_the_rest() -> None:
    """The wait says when the next may go, and it may go then."""
    budget, state = RateLimiter(100), RateLimiterState()
    state, _ = take(budget, state, 0.0, changes=86)
    state, first = take(budget, state, 10.0, reads=2)
    state, still = take(budget, state, 10.0 + first.wait_seconds - 0.1, reads=1)
    state, due = take(budget, state, 10.0 + first.wait_seconds, reads=1)

    assert (first.reads, still.reads, due.reads) == (1, 0, 1)


def test_what_is_kept_for_reads_does_not_make_them_wait_for_room_that_is_there_before() -> None:
    """What was asked a minute ago makes room every few seconds; what is kept comes back only after twenty."""
    budget, state = RateLimiter(30), RateLimiterState()
    for turn in range(26):
        state, _ = take(budget, state, turn * 2.3, changes=1)
    state, kept = take(budget, state, 61.0, reads=5)
    state, due = take(budget, state, 61.0 + kept.wait_seconds, reads=5)

    assert (kept.reads, due.reads) == (1, 1)
    assert kept.wait_seconds < 5


def test_reads_of_every_process_stand_back_for_a_waiting_change() -> None:
    """The state is shared, so a waiting create of one process goes before reads of another."""
    budget, state = RateLimiter(10), RateLimiterState()
    state, _ = take(budget, state, 0.0, changes=8)
    state, _ = take(budget, state, 30.0, changes=2)
    state, waiting = take(budget, state, 31.0, changes=3)
    assert waiting.changes == 0

    due = 31.0 + waiting.wait_seconds
    state, other = take(budget, state, due, reads=5)
    state, mine = take(budget, state, due + 0.5, changes=3)
    state, afterwards = take(budget, state, due + 30, reads=1)

    assert (other.reads, mine.changes, afterwards.reads) == (1, 3, 1)


def test_awaited_lookups_and_creates_share_a_window_from_its_first_second() -> None:
    """Neither is spaced: waiting machines and requests are served as soon as the limit allows."""
    budget, state = RateLimiter(100), RateLimiterState()
    state, first = budget.take(state, START, changes=120, lookups=0, reads=0)
    state, none = budget.take(state, START + 8, changes=34, lookups=86, reads=0)
    state, second = budget.take(state, START + 8 + none.room_seconds, changes=34, lookups=86, reads=0)
    state, third = budget.take(state, START + 124, changes=0, lookups=34, reads=0)

    assert (first.changes, none.changes, none.lookups) == (86, 0, 0)
    assert none.room_seconds == 54
    assert (second.changes, second.lookups) == (34, 52)
    assert third.lookups == 34


def test_single_free_permits_go_to_creates_and_lookups_in_turn() -> None:
    """In a long burst room comes free one by one; neither may starve."""
    budget, state, given = RateLimiter(60), RateLimiterState(), []
    for second in range(62):
        state, _ = budget.take(state, START + second, changes=1, lookups=0, reads=0)
    for second in range(62, 82):
        state, grant = budget.take(state, START + second, changes=5, lookups=5, reads=0)
        given.append((grant.changes, grant.lookups))

    assert sum(changes for changes, _ in given) == sum(lookups for _, lookups in given) > 5


@pytest.mark.parametrize("real", [45, 100, 250])
def test_a_lower_limit_is_measured_by_the_first_refusals(real: int) -> None:
    """The provider admits as many as it does in a minute; the next window asks for no more, for ten minutes."""
    budget, state, refused = RateLimiter(None), RateLimiterState(), []
    for minute in range(10):
        now, admitted = START + minute * 62.0, 0
        while (found := budget.take(state, now, changes=10, reads=0))[1].changes:
            state, grant = found
            over = max(0, admitted + grant.changes - real)
            admitted += grant.changes - over
            for _ in range(over):
                state = budget.throttled(state, now, granted_at=grant.at, retry_after_seconds=None)
            refused.append((minute, over))
            now += 0.1
        state = found[0]

    assert sum(over for minute, over in refused if minute <= 1) <= 25
    assert sum(over for minute, over in refused if minute >= 2) == 0
    assert real * 0.85 <= budget.limit(state) <= real


def test_a_higher_limit_is_found_within_a_minute_of_waiting_calls() -> None:
    """Until the first refusal there is no reason to believe in 300."""
    budget, state = RateLimiter(None), RateLimiterState()
    for second in range(60):
        state, _ = budget.take(state, START + second, changes=5000, reads=0)

    assert budget.limit(state) == MOST_LIMIT


def test_calls_that_are_short_for_a_moment_now_and_then_do_not_double_the_limit() -> None:
    """Only calls that stay short show that the limit is too low."""
    budget, state = RateLimiter(None), RateLimiterState()
    for minute in range(5):
        state, grant = budget.take(state, START + minute * 100, changes=5000, reads=0)
        assert grant.changes < 5000

    assert budget.limit(state) < 600, "it grew by a tenth a minute"


def test_it_halves_once_for_all_calls_under_way_and_grows_by_a_tenth_a_minute() -> None:
    """Ten calls that were throttled together are one piece of news."""
    budget, state = RateLimiter(None), RateLimiterState()
    state, grant = take(budget, state, 0.0, reads=10)
    for _ in range(10):
        state = budget.throttled(state, START + 1, granted_at=grant.at, retry_after_seconds=None)
    limits = [budget.limit(budget.at(state, START + 1 + minute * 60)) for minute in range(4)]
    again = budget.throttled(state, START + 70, granted_at=START + 69, retry_after_seconds=None)

    assert limits == [150, 165, 181, 199]
    assert budget.limit(again) == 82


def test_it_stays_between_its_bounds() -> None:
    """A bad day ends at 30 a minute, a good month at 3,000."""
    budget, state = RateLimiter(None), RateLimiterState(grown_at=START)
    for second in range(20):
        state = budget.throttled(state, START + second, granted_at=START + second, retry_after_seconds=None)

    assert budget.limit(state) == 30
    assert budget.limit(budget.at(state, START + 86_400 * 30)) == 3000


def test_a_fixed_limit_is_not_halved_but_a_pause_is_kept() -> None:
    """A fixed limit overrides what was learnt; Retry-After still counts."""
    budget, state = RateLimiter(100), RateLimiterState()
    state = budget.throttled(state, START, granted_at=START, retry_after_seconds=5.0)
    state, during = take(budget, state, 4.9, changes=1)
    state, after = take(budget, state, 5.0, changes=1)

    assert (during.changes, after.changes, after.limit) == (0, 1, 100)


@given(back=st.floats(0.001, 10_000))
def test_a_clock_set_back_neither_forgets_nor_freezes(back: float) -> None:
    """As if no time had passed: what was used stays used, and comes free after a minute."""
    budget, state = RateLimiter(5), RateLimiterState()
    state, _ = take(budget, state, 0.0, changes=5)
    state, at_once = take(budget, state, -back, changes=1)
    state, later = take(budget, state, -back + 64, changes=1)

    assert (at_once.changes, later.changes) == (0, 1)


def test_a_clock_set_back_does_not_count_as_a_refusal() -> None:
    """A limit that was never refused still doubles."""
    budget, state = RateLimiter(None), RateLimiterState()
    state, _ = take(budget, state, 3600.0, changes=1)
    for second in range(60):
        state, _ = take(budget, state, second, changes=5000)

    assert budget.limit(state) == MOST_LIMIT


def test_a_state_of_another_release_counts_as_a_minute_used_up() -> None:
    """What cannot be read cannot be trusted to be empty."""
    budget = RateLimiter(5)
    state = decoded(b'{"limit": "lots"}', START)
    state, at_once = take(budget, state, 0.0, changes=1)
    state, later = take(budget, state, 62.0, changes=1)

    assert (at_once.changes, later.changes) == (0, 1)


def test_permits_given_elsewhere_are_charged() -> None:
    """What a process took while the database was away counts for everybody afterwards."""
    budget = RateLimiter(5)
    state = budget.charge(RateLimiterState(), START, 4)
    _, grant = take(budget, state, 0.0, changes=3)

    assert grant.changes == 1
