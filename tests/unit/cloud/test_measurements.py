"""Measurements that cannot be read never make a busy machine look idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import pytest
from support.histories.leased import MINUTE, SECOND, T0

from corral.cloud.novita import measurements, wire
from corral.domain.leases.idle import Activity, judge_idle
from corral.domain.leases.lease import IdleRule
from corral.domain.leases.samples import IdleSample, expected_distance, from_utilization, summarized
from corral.domain.machine.utilization import MOST_SAMPLES, Period

RULE = IdleRule(after=10 * MINUTE)
"""Its intervals are longer than the time between two measurements."""
START = int(T0.timestamp())
LENGTH = int(RULE.after.total_seconds())
WITHIN = Period(begin=T0, end=T0 + RULE.after, interval=expected_distance(RULE))
Entry = object
Change = Callable[[str, list[Entry]], list[Entry]]
NO_VALUES: Final[tuple[object, ...]] = (None, "NaN", "95%", True, "", -0.1, [], {})


def entry(second: int, value: object) -> dict[str, object]:
    return {"timestamp": str(START + second), "value": value}


def constant(value: object, *, every: int = 15) -> list[Entry]:
    """The same value at each time of the window."""
    return [entry(second, value) for second in range(0, LENGTH + 1, every)]


def unchanged(_: str, entries: list[Entry]) -> list[Entry]:
    return entries


def alternating(name: str, odd: Callable[[int], Entry]) -> Change:
    """Every second entry of the series *name* is replaced."""

    def change(found: str, entries: list[Entry]) -> list[Entry]:
        if found != name:
            return entries
        return [odd(15 * number) if number % 2 else one for number, one in enumerate(entries)]

    return change


def samples(change: Change = unchanged, *, every: int = 15, more_gpus: tuple[object, ...] = ()) -> list[IdleSample]:
    """The samples of an answer about a quiet machine with one GPU, with *change* made to its series."""

    def series(name: str, value: float) -> list[Entry]:
        return change(name, constant(value, every=every))

    answer = {
        "cpuUtilization": series("cpu", 2.0),
        "memUtilization": series("memory", 30.0),
        "gpuUtilization": {
            "avg": series("average", 1.0),
            "gpuIds": [{"gpuId": "0", "items": series("gpu", 1.0)}, *more_gpus],
        },
    }
    seen = msgspec.json.decode(msgspec.json.encode(answer), type=wire.Measurements)
    return from_utilization(measurements.utilization(seen, WITHIN), WITHIN, gpus=1)


def activity(found: list[IdleSample]) -> Activity:
    return judge_idle(RULE, found, now=WITHIN.end, ready_at=T0 - MINUTE, last_used_at=None).activity


def test_a_quiet_machine_is_idle() -> None:
    assert activity(samples()) is Activity.IDLE


@pytest.mark.parametrize("name", ["cpu", "average", "gpu"])
@pytest.mark.parametrize("value", NO_VALUES, ids=repr)
def test_a_value_that_cannot_be_read_makes_its_interval_unknown(name: str, value: object) -> None:
    """The quiet values beside it say nothing about its time."""
    found = samples(alternating(name, lambda second: entry(second, value)))

    assert activity(found) is Activity.UNKNOWN
    assert {(one.gpu, one.cpu) for one in found[:-1]} == {(1.0, None) if name == "cpu" else (None, 2.0)}


def test_a_measurement_without_value_makes_its_interval_unknown() -> None:
    found = samples(alternating("gpu", lambda second: {"timestamp": str(START + second)}))

    assert activity(found) is Activity.UNKNOWN


def test_one_value_that_cannot_be_read_makes_only_its_interval_unknown() -> None:
    """Also if there is nothing else in it, and if it is the newest."""

    def alone(_: str, entries: list[Entry]) -> list[Entry]:
        return [*entries[:20], entry(300, None), *entries[24:]]

    def newest(_: str, entries: list[Entry]) -> list[Entry]:
        return [*entries[:-1], entry(LENGTH, None)]

    for change, place in ((alone, 5), (newest, 10)):
        found = samples(change)
        assert [number for number, one in enumerate(found) if one.cpu is None or one.gpu is None] == [place]
        assert activity(found) is Activity.UNKNOWN


@pytest.mark.parametrize("name", ["cpu", "average", "gpu"])
@pytest.mark.parametrize("value", [100.4, "130", 1e300])
def test_a_value_above_100_counts_as_100(name: str, value: object) -> None:
    """A GPU at 100.4 % is busy."""
    found = samples(alternating(name, lambda second: entry(second, value)))

    assert activity(found) is Activity.ACTIVE
    assert {(one.gpu, one.cpu) for one in found[:-1]} == {(1.0, 100.0) if name == "cpu" else (100.0, 2.0)}


@pytest.mark.parametrize("name", ["cpu", "average", "gpu"])
@pytest.mark.parametrize(
    "odd",
    [
        {"timestamp": "soon", "value": 95.0},
        {"timestamp": None, "value": 95.0},
        {"timestamp": "0", "value": 95.0},
        {"timestamp": "604800", "value": 95.0},
        {"timestamp": START * 10, "value": 95.0},
        {"value": 95.0},
        {},
        None,
        95.0,
        [str(START), 95.0],
    ],
    ids=repr,
)
def test_one_entry_without_a_time_makes_its_whole_series_unknown(name: str, odd: Entry) -> None:
    """It may belong to any interval."""

    def change(found: str, entries: list[Entry]) -> list[Entry]:
        return [odd, *entries] if found == name else entries

    found = samples(change)

    assert activity(found) is Activity.UNKNOWN
    assert {(one.gpu, one.cpu) for one in found} == {(1.0, None) if name == "cpu" else (None, 2.0)}


def test_older_measurements_than_were_asked_for_change_nothing() -> None:
    """A provider may always send the last hour."""
    found = samples(lambda _, entries: [entry(-3600, 95.0), entry(-3500, None), *entries])

    assert activity(found) is Activity.IDLE


@pytest.mark.parametrize(
    "odd",
    [None, "x", {"items": constant(95.0)}, {"gpuId": "", "items": constant(95.0)}],
    ids=["null", "text", "", "empty"],
)
def test_a_gpu_without_an_id_makes_the_gpu_unknown(odd: object) -> None:
    """It is the busy one, and the machine's only GPU seems quiet."""
    found = samples(more_gpus=(odd,))

    assert activity(found) is Activity.UNKNOWN
    assert {(one.gpu, one.cpu) for one in found} == {(None, 2.0)}


def test_more_gpus_than_are_read_make_the_gpu_unknown() -> None:
    quiet = tuple({"gpuId": str(number), "items": constant(1.0)} for number in range(1, 16))

    assert activity(samples(more_gpus=quiet)) is Activity.IDLE
    assert activity(samples(more_gpus=(*quiet, {"gpuId": "16", "items": constant(95.0)}))) is Activity.UNKNOWN


@pytest.mark.parametrize("name", ["cpu", "average", "gpu"])
def test_more_entries_than_are_read_make_the_series_unknown(name: str) -> None:
    """Those that are not read may be the busy ones."""

    def change(found: str, entries: list[Entry]) -> list[Entry]:
        return constant(95.0) + entries * (13_000 // len(entries)) if found == name else entries

    assert activity(samples(change)) is Activity.UNKNOWN


def test_more_times_than_are_read_leave_the_oldest_unknown() -> None:
    """Busy then, quiet since: what is not read is neither quiet nor a gap, of which a few are allowed."""
    most = LENGTH - MOST_SAMPLES

    def change(_: str, entries: list[Entry]) -> list[Entry]:
        return [entry(second, 95.0 if second < most - 1 else 2.0) for second in range(len(entries))]

    found = samples(change, every=1)

    assert activity(found) is Activity.UNKNOWN
    unknown = [one for one in found if one.cpu is None or one.gpu is None]
    assert unknown[-1].at == T0 + 2 * MINUTE + 59 * SECOND
    assert {(one.gpu, one.cpu) for one in found if one not in unknown} == {(2.0, 2.0)}


def test_an_unknown_interval_stays_unknown_in_a_summary() -> None:
    """Rules over days judge summaries of several intervals."""
    found = samples(lambda _, entries: [*entries[:20], entry(300, "95%"), *entries[21:]])
    summaries = summarized(found, 2 * MINUTE, WITHIN.interval, begin=T0 - MINUTE)

    assert [one.cpu for one in summaries] == [2.0, 2.0, None, 2.0, 2.0, 2.0]
    assert [one.gpu for one in summaries] == [1.0, 1.0, None, 1.0, 1.0, 1.0]
