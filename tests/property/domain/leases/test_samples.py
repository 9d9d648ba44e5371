"""Summaries of measurements never make an instance idle that is not by the measurements themselves."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.histories.leased import MINUTE, SECOND, T0

from corral.domain.leases.idle import Activity, IdleJudgement, judge_idle
from corral.domain.leases.lease import IdleRule
from corral.domain.leases.samples import IdleSample, expected_distance, stored_begin, stored_interval, summarized

RULE = IdleRule(after=100 * MINUTE)
_VALUES = st.sampled_from([(1.0, 2.0)] * 60 + [(None, 2.0), (1.0, None), (5.0, 1.0), (0.0, 10.0)])
_DISTANCES = st.sampled_from([60] * 30 + [15, 45, 75, 240, 900])
_HISTORIES = st.lists(st.tuples(_DISTANCES, _VALUES), min_size=100, max_size=170)
History = list[tuple[int, tuple[float | None, float | None]]]
_QUIET: History = [(60, (1.0, 2.0))] * 120


def samples_of(history: History) -> list[IdleSample]:
    at, found = T0, list[IdleSample]()
    for distance, (gpu, cpu) in history:
        at += distance * SECOND
        found.append(IdleSample(at=at, gpu=gpu, cpu=cpu))
    return found


def judged(samples: list[IdleSample], known: list[IdleSample]) -> IdleJudgement:
    now = samples[-1].at + MINUTE
    return judge_idle(RULE, known, now=now, ready_at=T0 - timedelta(days=1), last_used_at=None)


@given(history=_HISTORIES | st.just(_QUIET), interval=st.sampled_from([90, 300, 450, 1000]))
def test_a_summary_proves_no_more_than_its_measurements(history: History, interval: int) -> None:
    """Every value counts for all of its time, one unknown makes it unknown, and gaps stay gaps."""
    samples = samples_of(history)
    summaries = summarized(samples, interval * SECOND, expected_distance(RULE), begin=T0 - MINUTE)

    precise, coarse = judged(samples, samples), judged(samples, summaries)

    assert coarse.activity is not Activity.IDLE or precise.activity is Activity.IDLE
    assert coarse.activity is Activity.IDLE or history is not _QUIET
    assert coarse.measured_at == precise.measured_at


@given(after=st.timedeltas(MINUTE, timedelta(days=30)))
def test_a_window_has_at_most_a_thousand_summaries(after: timedelta) -> None:
    interval = stored_interval(IdleRule(after=after))

    assert after / interval <= 1000
    assert interval >= expected_distance(IdleRule(after=after))
    assert timedelta(0) <= T0 - stored_begin(T0, interval) < interval


def test_an_interval_that_is_only_known_in_part_is_not_summarized() -> None:
    """An unknown value in the other part would be forgotten."""
    samples = samples_of(_QUIET)
    begin = samples[7].at

    found = summarized(samples[7:], 300 * SECOND, MINUTE, begin=begin)

    assert [each.since for each in found][:1] == [stored_begin(begin, 300 * SECOND) + 300 * SECOND]
