"""The judgement on idleness, against a model that looks at each second of the window."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from hypothesis import event, example, given
from hypothesis import strategies as st
from support.histories.leased import MINUTE, SECOND, T0, every, measured

from corral.domain.leases.idle import Activity, judge_idle
from corral.domain.leases.lease import IdleRule, Signal
from corral.domain.leases.samples import IdleSample, expected_distance

_RULES = st.builds(
    IdleRule,
    after=st.sampled_from([2 * MINUTE, 5 * MINUTE, 10 * MINUTE]),
    signals=st.sets(st.sampled_from(Signal), min_size=1).map(frozenset),
)
_QUIET = st.tuples(st.sampled_from([0.0, 4.9]), st.sampled_from([0.0, 9.9]))
_OTHER = st.tuples(st.sampled_from([0.0, 5.0, 90.0, None]), st.sampled_from([0.0, 10.0, 90.0, None]))


@st.composite
def _histories(draw: st.DrawFn) -> list[IdleSample]:
    """Mostly quiet measurements, mostly 15 seconds apart; newest last."""
    at, samples = T0, list[IdleSample]()
    odd = draw(st.sets(st.integers(0, 45), max_size=3))
    gaps = draw(st.dictionaries(st.integers(0, 45), st.integers(1, 150), max_size=3))
    for number in range(draw(st.integers(0, 45))):
        gpu, cpu = draw(_OTHER if number in odd else _QUIET)
        samples.append(IdleSample(at=at, gpu=gpu, cpu=cpu))
        at += timedelta(seconds=gaps.get(number, 15))
    return samples


def _model(
    rule: IdleRule, samples: Sequence[IdleSample], now: datetime, since: datetime, used: datetime | None
) -> Activity:
    """The same judgement, by the rules in words: each second of the window is measured or not."""
    wanted = [s for s in (Signal.GPU, Signal.CPU) if s in rule.signals]
    limit = {Signal.GPU: rule.gpu_below, Signal.CPU: rule.cpu_below}
    seconds = int(rule.after.total_seconds())
    reach = {120: 15, 300: 30, 600: 60}[seconds]
    end = now
    if wanted and samples and now - samples[-1].at <= (60 + 2 * reach) * SECOND:
        end = samples[-1].at
    inside = [s for s in samples if end - rule.after < s.at <= end] if wanted else []
    values = [(getattr(s, name), limit[name]) for s in inside for name in wanted]
    if any(value is not None and value >= most for value, most in values):
        return Activity.ACTIVE
    if used is not None and Signal.LAST_USED in rule.signals and now - used < rule.after:
        return Activity.ACTIVE
    if any(value is None for value, _ in values) or since > end - rule.after:
        return Activity.UNKNOWN
    begin = end - rule.after
    times = [int((s.at - begin).total_seconds()) for s in inside]
    covered = {second for at in times for second in range(max(at - reach, 0), at)}
    return Activity.UNKNOWN if wanted and 5 * len(covered) < 4 * seconds else Activity.IDLE


@given(
    rule=_RULES,
    samples=_histories(),
    later=st.integers(0, 240),
    ready=st.integers(-700, 700),
    used=st.none() | st.integers(-900, 900),
)
@example(
    rule=IdleRule(after=2 * MINUTE),
    samples=measured(every(15 * SECOND, T0, T0 + 2 * MINUTE)),
    later=90,
    ready=0,
    used=None,
)
@example(
    rule=IdleRule(after=2 * MINUTE),
    samples=measured(every(15 * SECOND, T0, T0 + 2 * MINUTE)),
    later=91,
    ready=-99,
    used=None,
)
def test_the_judgement_is_that_of_the_model(
    rule: IdleRule, samples: list[IdleSample], later: int, ready: int, used: int | None
) -> None:
    now = (samples[-1].at if samples else T0) + later * SECOND
    since, last_used_at = T0 + ready * SECOND, None if used is None else min(T0 + used * SECOND, now)

    found = judge_idle(rule, reversed(samples), now=now, ready_at=since, last_used_at=last_used_at)

    event(found.activity.name)
    assert found.activity is _model(rule, samples, now, since, last_used_at)
    if found.activity is Activity.IDLE:
        assert found.quiet_since is not None
        assert found.quiet_since <= now - rule.after


@given(rule=_RULES, later=st.integers(0, 90), lost=st.sets(st.integers(0, 39), max_size=4))
def test_a_quiet_instance_is_idle_also_if_a_few_measurements_are_lost(
    rule: IdleRule, later: int, lost: set[int]
) -> None:
    """The distance of 15 seconds is that of the provider; up to a tenth of the samples is lost."""
    most = int(rule.after / (15 * SECOND)) // 10
    end = T0 + rule.after
    times = [at for number, at in enumerate(every(15 * SECOND, T0, end)) if number not in sorted(lost)[:most]]
    now = times[-1] + later * SECOND

    found = judge_idle(rule, measured([T0, *times]), now=now, ready_at=T0 - 5 * MINUTE, last_used_at=None)

    assert found.activity is Activity.IDLE


@given(rule=_RULES, value=st.sampled_from([None, 5.0, 100.0]), place=st.integers(0, 1000))
def test_one_active_or_unknown_measurement_in_the_window_is_enough(
    rule: IdleRule, value: float | None, place: int
) -> None:
    """Never idle while any requested signal in the window is active or unknown."""
    times = every(15 * SECOND, T0, T0 + rule.after)
    samples = measured(times)
    samples[place % len(times)] = IdleSample(at=times[place % len(times)], gpu=value, cpu=value and 2 * value)
    watched = rule.signals & {Signal.GPU, Signal.CPU}

    found = judge_idle(rule, samples, now=times[-1], ready_at=T0, last_used_at=None)

    expected = Activity.UNKNOWN if value is None else Activity.ACTIVE
    assert found.activity is (expected if watched else Activity.IDLE)


def test_the_distance_of_measurements_follows_the_rule() -> None:
    assert [expected_distance(IdleRule(after=after)) for after in (MINUTE, 5 * MINUTE, 600 * MINUTE)] == [
        15 * SECOND,
        30 * SECOND,
        60 * SECOND,
    ]
