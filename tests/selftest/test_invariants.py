"""The judges of a rampage find what they are there to find."""

from __future__ import annotations

from typing import Any

import pytest
from support.histories import invariants

READY: dict[str, Any] = {"id": "a", "status": "ready", "novitaInstanceId": "p", "error": None}
MACHINE: dict[str, Any] = {"id": "p", "name": "corral-1", "status": "running", "claim": "billed"}


def event(seq: int, before: str | None, after: str, kind: str = "instance.ready") -> dict[str, Any]:
    return {"seq": seq, "instanceId": "a", "previousStatus": before, "status": after, "event": kind}


LOG = [event(1, None, "creating", "instance.created"), event(2, "creating", "ready")]


def test_a_sound_end_is_found_sound() -> None:
    """Else nothing could ever pass."""
    assert invariants.of_bills({"a": 1}) == []
    assert invariants.of_instances([READY], [MACHINE], {"a": "ready"}) == []
    assert invariants.of_log(LOG) == []
    assert invariants.of_webhooks(LOG, {"a": [1, 2]}) == []
    assert invariants.of_stream([1, 2], 2) == []


@pytest.mark.parametrize(
    ("found", "machines", "wanted", "word"),
    [
        ([], [], {"a": "ready"}, "not there"),
        ([], [MACHINE], {}, "not wanted:"),
        ([READY | {"status": "starting"}], [MACHINE], {}, "never came to rest"),
        ([READY | {"status": "terminated"}], [MACHINE], {"a": "terminated"}, "called terminated"),
        ([READY | {"status": "exited"}], [MACHINE], {"a": "exited"}, "is billed"),
        ([READY | {"status": "failed"}], [MACHINE], {"a": "ready"}, "without a reason"),
    ],
)
def test_each_broken_promise_is_found(
    found: list[dict[str, Any]], machines: list[dict[str, Any]], wanted: dict[str, str], word: str
) -> None:
    """One at a time."""
    assert any(word in trouble for trouble in invariants.of_instances(found, machines, wanted))


def test_broken_logs_bills_and_events_are_found() -> None:
    """Gaps, broken chains, double bills, lost or swapped news."""
    assert invariants.of_bills({"a": 2})
    assert invariants.of_log([LOG[0], event(3, "creating", "ready")])
    assert invariants.of_log([LOG[0], event(2, "starting", "ready")])
    assert invariants.of_webhooks(LOG, {"a": [2, 1]})
    assert invariants.of_webhooks(LOG, {})
    assert invariants.of_stream([1, 3], 2)
    assert invariants.of_stream([1], 2)
