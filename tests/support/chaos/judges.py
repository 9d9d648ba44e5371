"""When the installation is at rest after the attack, and what is wrong with it then."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from support.chaos.http import Http
from support.chaos.installation import CLOCK
from support.chaos.rules import Field
from support.chaos.users import SILENT
from support.histories import invariants

OURS = r"corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+"
"""The name of a machine; the group is the instance it was bought for."""
LONGEST_GAP_SECONDS = 90.0
"""
The most time between two listings: a leader that is frozen or cut off is replaced within 30 s.

The rest is for spells in which the database is down or read-only, and for processes that start on a busy machine.
"""

Shown = Mapping[str, Any]


async def is_at_rest(field: Field) -> bool:
    """Nothing moves, what was to be deleted is gone, every machine is known or reported, receivers got everything."""
    found = await field.http.instances()
    if found is None or any(one["status"] not in invariants.RESTING or one["stale"] for one in found):
        return False
    wanted = field.asked.wanted
    if any(wanted.get(one["id"]) == "terminated" and one["status"] != "terminated" for one in found):
        return False
    known = {one["novitaInstanceId"] for one in found if one["status"] != "terminated"} | await field.http.reported()
    if any(machine["id"] not in known for machine in await field.http.machines()):
        return False
    return not of_webhooks(field, await field.http.events())


async def judge(field: Field) -> None:
    """Add everything that is wrong to the report."""
    report, http = field.report, field.http
    found, events = await http.instances() or [], await http.events()
    ledger = await http.sim("GET", "/_sim/ledger", pattern=OURS)
    state = await http.sim("GET", "/_sim/state")
    living = [machine for machine in state["instances"] if machine["status"] != "removed"]
    removed = [machine for machine in state["instances"] if machine["status"] == "removed"]
    # Bought after the export and in no record of it: to be reported, and kept.
    forgotten = await http.reported() & field.living_at_restore
    report.ends.update(one["status"] for one in found)
    report.events = len(events)
    report.deliveries = sum(map(len, field.installation.receiver.got.values()))
    report.trouble += [
        *invariants.of_bills(ledger["at_once"]),
        *invariants.of_instances(found, [m for m in living if m["id"] not in forgotten], _expected(field, found)),
        *of_purchases(state["instances"], field.asked.deleting if field.asked.epoch else set()),
        *of_removals(removed, field.asked.deleting),
        *of_returns(events),
        *invariants.of_log(events),
        *of_webhooks(field, events),
        *of_gap(report.longest_gap),
    ]


def of_purchases(machines: Sequence[Shown], excused: set[str]) -> list[str]:
    """
    No instance got a second machine: none of the harm here takes the first one away.

    Excused is one with a delete that a restore may have lost: it is wanted again, and its machine is gone.
    """
    bought: dict[str, list[str]] = {}
    for machine in machines:
        instance = _instance_of(machine["name"])
        if instance is not None and instance not in excused:
            bought.setdefault(instance, []).append(f"{machine['name']} {machine['id']} {machine['status']}")
    return [f"{instance} was bought twice: {names}" for instance, names in bought.items() if len(names) > 1]


def of_removals(removed: Sequence[Shown], deleting: set[str]) -> list[str]:
    """No machine is deleted unless a user asked for it."""
    return [
        f"{machine['name']} ({machine['id']}) was deleted although no delete was requested"
        for machine in removed
        if (instance := _instance_of(machine["name"])) is not None and instance not in deleting
    ]


def of_returns(events: Sequence[Shown]) -> list[str]:
    """Gone means gone: nothing follows `terminated`."""
    ended: set[str] = set()
    trouble: list[str] = []
    for event in events:
        if event["instanceId"] in ended and event["status"] != event["previousStatus"]:
            trouble.append(f"{event['instanceId']} was terminated and then {event['status']}: {event['reason']}")
        if event["status"] == "terminated":
            ended.add(event["instanceId"])
    return trouble


def of_webhooks(field: Field, events: Sequence[Shown]) -> list[str]:
    """The receiver that answers got every event since the last restore, in order."""
    after = field.restored_seq
    due = [one for one in events if one["seq"] > after and not str(one["data"].get("name")).endswith(SILENT)]
    got = {
        instance: [number for number in numbers if number > after]
        for instance, numbers in field.installation.receiver.got.items()
    }
    return invariants.of_webhooks(due, got)


def of_gap(seconds: float) -> list[str]:
    """Some process kept looking at the account."""
    return [] if seconds <= LONGEST_GAP_SECONDS else [f"the account was not listed for {seconds:.0f} s"]


async def watch_listings(http: Http, field: Field) -> None:
    """Measure the gaps between listings, until cancelled."""
    count, since = -1, CLOCK.monotonic()
    while True:
        now = CLOCK.monotonic()
        calls = await http.sim("GET", "/_sim/calls")
        seen = sum(calls["endpoints"].get("list", {"outcomes": {}})["outcomes"].values())
        if seen != count:
            count, since = seen, now
        field.report.longest_gap = max(field.report.longest_gap, now - since)
        await CLOCK.sleep(0.5)


def _expected(field: Field, found: Sequence[Shown]) -> dict[str, str]:
    """What each instance is to be; those that a restore may have forgotten need not be there."""
    there = {one["id"] for one in found}
    wanted = field.asked.wanted.items()
    ends = {instance: end for instance, end in wanted if instance in there or end != invariants.ANY}
    # Recorded without an answer that a user saw: any end will do.
    return dict.fromkeys(there, invariants.ANY) | ends


def _instance_of(name: str) -> str | None:
    match = re.fullmatch(OURS, name)
    return None if match is None else match[1].replace("-", "_", 1)
