"""Answers of the provider with entries that cannot be read never make a machine idle."""

from __future__ import annotations

from typing import Final

import msgspec
from hypothesis import event, example, given
from hypothesis import strategies as st
from support.histories.leased import MINUTE, T0

from corral.cloud.novita import measurements, wire
from corral.domain.leases.idle import Activity, judge_idle
from corral.domain.leases.lease import IdleRule
from corral.domain.leases.samples import expected_distance, from_utilization
from corral.domain.machine.utilization import Period

START = int(T0.timestamp())
SERIES: Final = ("cpu", "average", "gpu 0", "gpu 1")
VALUES: Final[tuple[object, ...]] = (None, "NaN", "95%", True, "", -1, [], 95.0, 100.4, "130", 1e300)
TIMES: Final[tuple[object, ...]] = (None, "", "never", "0", -1, 60, START * 10, [], True)
ODD: Final = st.sampled_from([*({"value": odd} for odd in VALUES), *({"timestamp": odd} for odd in TIMES)])
"""What is different in an entry."""


def read(after: int, changed: dict[str, dict[int, dict[str, object]]], *, added: bool) -> Activity:
    """
    The judgement on a machine with two GPUs that is quiet but for *changed*.

    Those are the odd entries of each series by their places; *added* says that they are sent beside the quiet ones.
    """
    rule = IdleRule(after=after * MINUTE)
    within = Period(begin=T0, end=T0 + rule.after, interval=expected_distance(rule))

    def series(name: str) -> list[dict[str, object]]:
        quiet: list[dict[str, object]] = [
            {"timestamp": str(START + 15 * number), "value": 2.0} for number in range(4 * after + 1)
        ]
        odd = {place % len(quiet): change for place, change in changed.get(name, {}).items()}
        replaced = [entry | odd.get(place, {}) for place, entry in enumerate(quiet)]
        return [*replaced, *quiet] if added else replaced

    gpus = [{"gpuId": str(number), "items": series(f"gpu {number}")} for number in range(2)]
    answer = {"cpuUtilization": series("cpu"), "gpuUtilization": {"avg": series("average"), "gpuIds": gpus}}
    seen = msgspec.json.decode(msgspec.json.encode(answer), type=wire.Measurements)
    samples = from_utilization(measurements.utilization(seen, within), within, gpus=2)
    return judge_idle(rule, samples, now=within.end, ready_at=T0 - MINUTE, last_used_at=None).activity


@given(
    after=st.sampled_from([2, 5, 10]),
    changed=st.dictionaries(st.sampled_from(SERIES), st.dictionaries(st.integers(1, 1000), ODD, max_size=3)),
    added=st.booleans(),
)
@example(after=10, changed={}, added=False)
@example(after=10, changed={"gpu 1": {40: {"value": "95%"}}}, added=False)
@example(after=2, changed={"average": {8: {"timestamp": None}}}, added=True)
def test_never_idle_while_a_signal_in_the_window_is_active_or_unknown(
    after: int, changed: dict[str, dict[int, dict[str, object]]], *, added: bool
) -> None:
    """One entry that is busy or cannot be read is enough, whichever it is; without one the machine is idle."""
    places = {place % (4 * after + 1): odd for entries in changed.values() for place, odd in entries.items()}
    is_quiet = not any(place or "timestamp" in odd for place, odd in places.items())

    found = read(after, changed, added=added)

    event(found.name)
    if is_quiet and not places:
        assert found is Activity.IDLE
    elif not is_quiet:
        assert found is not Activity.IDLE
