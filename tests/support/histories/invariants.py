"""What is wrong with an installation that came to rest: of its instances, its bills, its log and its webhooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

RESTING = frozenset({"ready", "exited", "failed", "terminated"})

ANY = "any"
"""Wanted of an instance that may come to rest in any way."""

Found = Mapping[str, Any]
"""Something as an API shows it."""


def of_bills(at_once: Mapping[str, int]) -> list[str]:
    """Billed at most once."""
    return [f"billed twice: {instance_id} {count}" for instance_id, count in at_once.items() if count > 1]


def of_instances(found: Sequence[Found], machines: Sequence[Found], wanted: Mapping[str, str]) -> list[str]:
    """Nothing wanted is lost, nothing else is there, and everything is as it was last wanted, or says why not."""
    known = {one["id"] for one in found}
    left = {machine["id"]: machine for machine in machines}
    trouble = [f"{instance_id} was accepted and is not there" for instance_id in wanted if instance_id not in known]
    for one in found:
        trouble += _of_one(one, left.pop(one["novitaInstanceId"], None), wanted.get(one["id"], "ready"))
    return trouble + [f"not wanted: {machine['name']} ({machine['status']})" for machine in left.values()]


def _of_one(one: Found, machine: Found | None, wanted: str) -> list[str]:
    instance_id, status = one["id"], one["status"]
    billed = machine is not None and machine["claim"] == "billed"
    wrong = {
        f"{instance_id} never came to rest: {status}": status not in RESTING,
        f"{instance_id} is called terminated and is there": status == "terminated" and machine is not None,
        f"{instance_id} should be {wanted} and is billed": wanted in {"terminated", "exited"} and billed,
        f"{instance_id} should be {wanted} and is {status} without a reason": wanted not in {ANY, status}
        and one["error"] is None,
    }
    return [what for what, is_so in wrong.items() if is_so]


def of_log(events: Sequence[Found]) -> list[str]:
    """Each change is published once, in order, without gaps."""
    trouble: list[str] = []
    if [event["seq"] for event in events] != list(range(1, len(events) + 1)):
        trouble.append("the event log has gaps")
    last: dict[str, str] = {}
    for event in events:
        instance_id, before, after = event["instanceId"], event["previousStatus"], event["status"]
        if event["event"].startswith("instance.startup_") or before == after:
            continue
        if before != last.get(instance_id):
            trouble.append(f"{instance_id}: {before} → {after} after {last.get(instance_id)}")
        last[instance_id] = after
    return trouble


def of_webhooks(events: Sequence[Found], got: Mapping[str, Sequence[int]]) -> list[str]:
    """Every receiver got every event for receivers, in order, ignoring repetitions."""
    due: dict[str, list[int]] = {}
    for event in events:
        if event["event"] != "instance.changed":
            due.setdefault(event["instanceId"], []).append(event["seq"])
    return [f"{w}: webhooks {got.get(w)} instead of {numbers}" for w, numbers in due.items() if got.get(w) != numbers]


def of_stream(streamed: Sequence[int], events: int) -> list[str]:
    """A reader that resumes where it broke off sees each event once."""
    whole = list(range(1, len(streamed) + 1))
    trouble = [] if list(streamed) == whole else ["the event stream had gaps or repeats"]
    return trouble + ([] if len(streamed) >= events else [f"the event stream reported {len(streamed)} of {events}"])
