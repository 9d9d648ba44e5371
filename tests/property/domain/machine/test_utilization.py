"""Measurements: only usable ones remain, in order, and nothing the provider sends breaks the reading."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.cloud.novita import measurements, wire
from corral.domain.machine.utilization import (
    MOST_GPUS,
    MOST_SAMPLES,
    POINTS,
    TOLERANCE,
    Utilization,
    newest,
    period,
)

NOW = datetime(2030, 1, 1, 12, 0, 7, tzinfo=UTC)
HOUR = period(NOW, timedelta(hours=1))
SECONDS = int(NOW.timestamp())
TIMES: st.SearchStrategy[object] = st.one_of(
    st.integers(SECONDS - 4000, SECONDS + 100).map(str),
    st.integers(SECONDS - 4000, SECONDS).map(lambda seconds: seconds * 1000),
    st.sampled_from([None, "", "never", -1, 0, 1e300, "2030-01-01T11:59:00Z", "0001-01-01T00:00:00+10:00", [], True]),
)
VALUES: st.SearchStrategy[object] = st.one_of(
    st.floats(0, 100), st.floats(0, 100).map(str), st.sampled_from([None, "NaN", -1, 100.5, "x", {}])
)
SAMPLES = st.lists(st.fixed_dictionaries({"timestamp": TIMES, "value": VALUES}) | st.sampled_from([None, 7, "x", {}]))
JUNK = st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(), st.lists, max_leaves=5)
GPUS = st.fixed_dictionaries(
    {"avg": SAMPLES | JUNK, "gpuIds": st.lists(st.fixed_dictionaries({"gpuId": JUNK, "items": SAMPLES})) | JUNK}
)
ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "cpuUtilization": SAMPLES | JUNK,
        "memUtilization": SAMPLES | JUNK,
        "gpuUtilization": GPUS | JUNK,
        "gpuMemUtilization": GPUS | JUNK,
    },
)


def read(answer: object) -> Utilization:
    return measurements.utilization(msgspec.json.decode(msgspec.json.encode(answer), type=wire.Measurements), HOUR)


@given(ANSWERS)
def test_any_answer_gives_measurements_in_range_and_order(answer: object) -> None:
    """Whatever is odd is left out, and only that."""
    found = read(answer)
    every = [found.gpu, found.gpu_memory, found.cpu, found.memory, found.disk]
    every += [series for one in found.gpus for series in (one.gpu, one.gpu_memory)]

    assert len(found.gpus) <= MOST_GPUS
    for series in every:
        assert len(series) <= MOST_SAMPLES
        assert all(0 <= sample.value <= 100 for sample in series)
        assert [sample.at for sample in series] == sorted({sample.at for sample in series})
        assert all(HOUR.begin - TOLERANCE <= sample.at <= HOUR.end + TOLERANCE for sample in series)


@given(st.dictionaries(st.integers(SECONDS - 3600, SECONDS), st.floats(0, 100), max_size=50))
def test_good_measurements_are_all_kept_with_their_gaps(values: dict[int, float]) -> None:
    """As numbers or text; none is invented between two."""
    found = read({"cpuUtilization": [{"timestamp": str(at), "value": value} for at, value in values.items()]})
    assert {int(sample.at.timestamp()): sample.value for sample in found.cpu} == values
    latest = newest(found.cpu)
    assert (latest is None) is (not values)
    assert latest is None or latest.at.timestamp() == max(values)


@pytest.mark.parametrize("value", ["NaN", "inf", "-0.1", 100.01, math.inf, None, True, ""])
def test_what_is_no_percentage_leaves_a_gap(value: object) -> None:
    """A plot shows no line there."""
    at = str(SECONDS - 60)
    text = msgspec.json.encode({"cpuUtilization": [{"timestamp": at, "value": None}]}).decode()
    raw = text.replace(
        '"value":null', f'"value":{"1e999" if value == math.inf else msgspec.json.encode(value).decode()}'
    )
    try:
        seen = msgspec.json.decode(raw, type=wire.Measurements)
    except msgspec.DecodeError:
        return
    assert measurements.utilization(seen, HOUR).cpu == ()


@given(st.integers(1, 1440), st.integers(1_700_000_000_000, 2_200_000_000_000))
def test_a_period_has_few_points_at_steady_times(minutes: int, milliseconds: int) -> None:
    """So that two requests within an interval ask for the same, and a plot does not jump."""
    now = datetime.fromtimestamp(milliseconds / 1000, UTC)
    found = period(now, timedelta(minutes=minutes))
    seconds = found.interval.total_seconds()

    assert found.end - found.begin == timedelta(minutes=minutes)
    assert 0 <= (now - found.end).total_seconds() < seconds
    assert found.end.timestamp() % seconds == pytest.approx(0, abs=1e-3)
    assert seconds >= 15
    assert minutes * 60 / seconds <= POINTS
