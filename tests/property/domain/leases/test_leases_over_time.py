"""Leases over time: random load, gaps, outages and commands, checked by a judge that shares no code with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.histories.leased import MINUTE, SECOND, T0, leased

from corral.domain.leases.changes import Extension, after_command, extended, lease_replaced, used
from corral.domain.leases.decide import judge
from corral.domain.leases.lease import EndAction, EndCause, IdleRule, Lease, LeaseState, Notice, Schedule
from corral.domain.leases.outlook import expected_end
from corral.domain.leases.samples import IdleSample
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.operation import OperationKind
from corral.domain.records import replace

TICK = 30 * SECOND
"""Between two measurements."""
_KINDS = st.sampled_from(["quiet"] * 5 + ["gpu", "cpu", "gap", "zero", "half"])
_RULES = st.builds(IdleRule, after=st.sampled_from([5 * MINUTE, 10 * MINUTE]))
_LEASES = st.builds(
    Lease,
    max_duration=st.sampled_from([None, 30 * MINUTE, 90 * MINUTE]),
    idle=_RULES | _RULES | st.none(),
    schedule=st.sampled_from(
        [None, None, Schedule(stop="20 * * * *", start="40 * * * *"), Schedule(stop="50 * * * *")]
    ),
    on_end=st.sampled_from(EndAction),
    grace=st.sampled_from([0 * MINUTE, 4 * MINUTE, 10 * MINUTE]),
)


@dataclass
class _Book:
    """What happened, as the judge saw it."""

    ready_at: datetime = T0
    since: datetime = T0 - 5 * MINUTE
    """When it was last started, or its schedule was changed."""
    safe_until: datetime = T0
    """The end of the extension."""
    used_at: datetime = T0 - MINUTE
    changed_at: datetime = T0
    """When a command last changed the lease or cancelled a notice."""
    noticed_at: datetime | None = None
    """When the pending notice was given."""
    stopped_by: str = ""
    stopped_at: datetime = T0
    measured: dict[datetime, str] = field(default_factory=dict)
    """What was published for each tick; a gap is not in it."""


class Leases(RuleBasedStateMachine):
    """One instance; the clock moves by ticks, and Corral judges at each sample and when it said to wake up."""

    @initialize(lease=_LEASES, lag=st.sampled_from([0, 2, 3]))
    def create(self, lease: Lease, lag: int) -> None:
        self.now = T0
        self.instance = leased(lease)
        self.lag = lag * TICK
        self.book = _Book()
        self.wake_at: datetime | None = T0

    @property
    def state(self) -> LeaseState:
        assert self.instance.lease is not None
        return self.instance.lease

    @property
    def lease(self) -> Lease:
        return self.state.lease

    def _samples(self) -> list[IdleSample]:
        """What the sampler stored: the window, a bit longer, as far as it is published."""
        values: dict[str, tuple[float | None, float | None]] = {
            "quiet": (1.0, 3.0), "gpu": (5.0, 0.0), "cpu": (0.0, 10.0), "zero": (None, None), "half": (0.0, None)
        }  # fmt: skip
        window = self.lease.idle.after + 3 * MINUTE if self.lease.idle is not None else 0 * MINUTE
        return [
            IdleSample(at=at, gpu=values[kind][0], cpu=values[kind][1])
            for at, kind in self.book.measured.items()
            if self.now - window < at <= self.now - self.lag
        ]

    def _judge(self) -> None:
        """As the engine does: judge, record, and judge again until nothing follows."""
        for _ in range(5):
            before = self.state
            decision = judge(self.instance, self._samples(), self.now)
            self.wake_at = decision.wake_at
            assert decision.state is not None
            self.instance = replace(self.instance, lease=decision.state)
            if _announced(decision.state.notice) != _announced(before.notice):
                self._noticed(before.notice, decision.state.notice, decision.because)
            elif decision.command is not None:
                self._commanded(decision.command, decision.cause, decision.because)
            else:
                return
        raise AssertionError("it is judged without end")

    def _noticed(self, before: Any, after: Any, because: str) -> None:
        assert because
        assert before is None or after is None or self.now > before.ends_at + 2 * MINUTE  # given again after an outage
        self.book.noticed_at = None if after is None else self.now
        if after is not None:
            assert after.ends_at >= self.now + self.lease.grace
            assert after.ends_at >= self.book.safe_until
        elif before.cause is EndCause.IDLE and self.instance.phase is Phase.READY:
            assert not self._is_quiet_throughout()
        else:
            assert before.cause is EndCause.SCHEDULE
            assert self.instance.phase is not Phase.READY or self._scheduled() != "stop"

    def _commanded(self, kind: OperationKind, cause: EndCause | None, because: str) -> None:
        assert because
        notice = self.state.notice
        self.instance = replace(self.instance, lease=after_command(self.state, kind, self.now, cause))
        if kind is OperationKind.START:
            assert self.book.stopped_by in {"schedule", "idle"}
            assert self._scheduled(self.book.stopped_at) == "start"
            self._started()
            return
        assert self.book.noticed_at is not None
        assert self.now - self.book.noticed_at >= self.lease.grace
        assert self.now >= self.book.safe_until
        by_schedule = cause is EndCause.SCHEDULE
        assert kind == ("stop" if by_schedule else self.lease.on_end)
        match cause:
            case EndCause.MAX_DURATION:
                assert self.lease.max_duration is not None
                assert self.now >= self.book.ready_at + self.lease.max_duration
            case EndCause.SCHEDULE:
                assert self._scheduled(self.book.since) == "stop"
            case _:
                self._check_idle_end(notice)
        self._stopped(str(cause))
        if kind is OperationKind.DELETE:
            gone = replace(self.instance, phase=Phase.TERMINATED, goal=Goal.GONE)
            assert judge(gone, [], self.now + 99 * MINUTE).command is None
            self.start()  # a new one

    def _check_idle_end(self, notice: Notice | None) -> None:
        """It is idle, and that is known of a time after the notice; after an outage, after the announced end."""
        assert notice is not None
        assert self._may_be_idle()
        late = self.now - notice.ends_at
        assert max(self._known()) > (notice.given_at if late <= 15 * SECOND else notice.ends_at)

    def _scheduled(self, since: datetime | None = None, until: datetime | None = None) -> str:
        """What the schedule last said from *since* to *until*, by the minutes of the hour: "stop", "start" or ""."""
        minutes = {"20 * * * *": 20, "40 * * * *": 40, "50 * * * *": 50}
        schedule, at = self.lease.schedule, (until or self.now).replace(second=0)
        since = since or self.book.since
        while schedule is not None and at > since:
            if schedule.stop is not None and at.minute == minutes[schedule.stop]:
                return "stop"
            if schedule.start is not None and at.minute == minutes[schedule.start]:
                return "start"
            at -= MINUTE
        return ""

    def _window(self) -> dict[datetime, str]:
        """What was published of the window that ends now."""
        assert self.lease.idle is not None
        begin, end = self.now - self.lease.idle.after, self.now - self.lag
        return {at: kind for at, kind in self.book.measured.items() if begin < at <= end}

    def _known(self) -> list[datetime]:
        """The times of everything that is published."""
        return [at for at in self.book.measured if at <= self.now - self.lag]

    def _is_active(self) -> bool:
        """Whether the window shows activity, so that a notice of the idle rule is to be cancelled."""
        assert self.lease.idle is not None
        is_used = self.now - self.book.used_at < self.lease.idle.after
        return is_used or not {"gpu", "cpu"}.isdisjoint(self._window().values())

    def _may_be_idle(self) -> bool:
        """Whether nothing in the window is active or unknown, and enough of it is known."""
        assert self.lease.idle is not None
        window, after = self._window(), self.lease.idle.after
        reach, known = after / 10, self._known()
        end = max(known, default=T0)
        if self.now - end > 2 * MINUTE + 2 * reach:
            return False
        slots = [end - number * TICK for number in range(int(after / TICK))]
        covered = [slot for slot in slots if any(slot <= at < slot + reach for at in known)]
        quiet_for = self.now - max(self.book.ready_at, self.book.used_at)
        return set(window.values()) <= {"quiet"} and len(covered) >= 0.8 * len(slots) and quiet_for >= after

    def _is_quiet_throughout(self) -> bool:
        """Whether all of the window and the lateness before it was measured, and quiet."""
        assert self.lease.idle is not None
        begin = self.now - self.lease.idle.after - self.lag - 2 * TICK
        is_known = all(self.book.measured.get(at) == "quiet" for at in _ticks(begin, self.now - self.lag))
        return is_known and max(self.book.ready_at, self.book.used_at) <= begin

    def _stopped(self, by: str) -> None:
        self.book.stopped_by, self.book.stopped_at, self.book.noticed_at = by, self.now, None
        self.book.safe_until = T0
        self.instance = replace(self.instance, phase=Phase.EXITED, goal=Goal.STOPPED, phase_since=self.now)

    def _started(self) -> None:
        self.book = _Book(
            ready_at=self.now, since=self.now, safe_until=T0, used_at=self.book.used_at, changed_at=self.now
        )
        self.instance = replace(self.instance, phase=Phase.READY, goal=Goal.RUNNING, ready_at=self.now)
        self.wake_at = self.now

    def _advance(self, kind: str, *, is_watched: bool) -> None:
        self.now += TICK
        if kind != "gap" and self.instance.phase is Phase.READY:
            self.book.measured[self.now] = kind
        is_sampled = self.now - self.lag in self.book.measured
        if is_watched and (is_sampled or (self.wake_at is not None and self.wake_at <= self.now)):
            self._judge()

    @rule(kind=_KINDS, ticks=st.integers(1, 12))
    def run(self, kind: str, ticks: int) -> None:
        for _ in range(ticks):
            self._advance(kind, is_watched=True)

    @rule(ticks=st.integers(15, 50))
    def rest(self, ticks: int) -> None:
        self.run("quiet", ticks)

    @rule(kind=st.sampled_from(["gpu", "cpu", "gap", "zero", "half"]), ticks=st.integers(1, 6), rest=st.integers(0, 25))
    def disturb(self, kind: str, ticks: int, rest: int) -> None:
        """It is quiet until a notice is given; then something happens, and then it is quiet again."""
        for _ in range(40):
            if self.state.notice is None:
                self.run("quiet", 1)
        self.run(kind, ticks)
        self.run("quiet", rest)

    @rule(kind=st.sampled_from(["quiet", "gap", "gpu"]), ticks=st.integers(1, 60))
    def outage(self, kind: str, ticks: int) -> None:
        """Corral does not run; what the provider measured can be read afterwards, unless it was a gap."""
        for _ in range(ticks):
            self._advance(kind, is_watched=False)
        self._judge()

    @rule(by=st.sampled_from([MINUTE, 20 * MINUTE]))
    @precondition(lambda self: self.instance.phase is Phase.READY and self._can_end())
    def extend(self, by: timedelta) -> None:
        end = expected_end(self.instance, self.now)
        latest = max(self.now, self.book.safe_until, self.now if end is None else end.ends_at)
        self._change(extended(self.instance, Extension(by=by), self.now, None))
        assert self.state.extended_until == latest + by
        self.book.safe_until = latest + by
        self._judge()

    def _can_end(self) -> bool:
        return bool(self.lease.max_duration or self.lease.idle or self.lease.schedule)

    @rule(seconds=st.sampled_from([-600, -30, 0, 600]))
    def use(self, seconds: int) -> None:
        at = min(self.now, self.now + seconds * SECOND)
        self._change(used(self.instance, self.now + seconds * SECOND, self.now), is_notice_kept=True)
        self.book.used_at = max(self.book.used_at, at)
        self._judge()

    @rule(lease=_LEASES)
    def patch(self, lease: Lease) -> None:
        if lease.schedule != self.lease.schedule:
            self.book.since = self.now
            self.book.stopped_at = self.now
        if lease.is_empty:  # with the last part of a lease its extension goes too
            self.book.safe_until = T0
        self._change(lease_replaced(self.instance, lease, self.now), is_notice_kept=True)
        self._judge()

    def _change(self, state: Any, *, is_notice_kept: bool = False) -> None:
        assert is_notice_kept or state.notice is None
        self.instance = replace(self.instance, lease=state)
        if state.notice is None:
            self.book.noticed_at, self.book.changed_at = None, self.now

    @rule()
    @precondition(lambda self: self.instance.phase is Phase.READY)
    def stop(self) -> None:
        self._change(after_command(self.state, OperationKind.STOP, self.now))
        self._stopped("user")

    @rule()
    @precondition(lambda self: self.instance.phase is not Phase.READY)
    def start(self) -> None:
        self._change(after_command(self.state, OperationKind.START, self.now))
        self._started()
        self._judge()

    @invariant()
    def ends_on_time(self) -> None:
        """While it is watched: once an end is a grace period away a notice is pending, and none is overdue."""
        if not hasattr(self, "book") or self.instance.phase is not Phase.READY:
            return
        notice = self.state.notice
        if notice is not None:
            assert self.book.noticed_at == notice.given_at
            assert self.now < notice.ends_at or self._waits(notice)
            assert notice.cause is not EndCause.IDLE or not self._is_active()
            return
        grace = self.lease.grace
        soon = self.now + grace - TICK
        if self.lease.max_duration is not None:
            assert soon < max(self.book.ready_at + self.lease.max_duration, self.book.safe_until)
        if self._scheduled() == "stop" == self._scheduled(until=max(self.now, self.book.safe_until)):
            assert soon < self.book.safe_until
        if self.lease.idle is not None and self._is_quiet_throughout():
            assert soon < self.book.safe_until

    def _waits(self, notice: Notice) -> bool:
        """Whether a due end may wait: what happened since is not known, or a session may still report its use."""
        assert notice.cause is EndCause.IDLE
        assert notice.awaited_since is not None
        waited = self.now - notice.awaited_since
        is_known = self._is_quiet_throughout() and max(self._known()) > notice.ends_at
        return waited < 90 * SECOND or (waited < 10 * MINUTE and not is_known)

    @invariant()
    def nothing_follows_before_it_wakes(self) -> None:
        if not hasattr(self, "book") or self.wake_at is None or self.wake_at <= self.now + SECOND:
            return
        for at in (self.now + SECOND, self.wake_at - SECOND):
            later = judge(self.instance, self._samples(), at)
            assert later.command is None
            assert later.state is not None
            notice = later.state.notice
            # Idle needs a sample, which comes by itself.
            assert notice is None or notice == self.state.notice or notice.cause is EndCause.IDLE


def _announced(notice: Notice | None) -> Notice | None:
    return None if notice is None else replace(notice, awaited_since=None)


def _ticks(begin: datetime, end: datetime) -> list[datetime]:
    """The ticks after *begin* until *end*."""
    first = T0 + ((begin - T0) // TICK + 1) * TICK
    return [first + number * TICK for number in range((end - first) // TICK + 1)]


TestLeases = Leases.TestCase
TestLeases.settings = settings(stateful_step_count=25)
