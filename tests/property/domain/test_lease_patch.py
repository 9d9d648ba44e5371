"""A change of a lease is a merge patch (RFC 7396) of what the API shows of it."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.leases.lease import Lease
from corral.domain.requests.lease import LeaseDefaults, changed, read_lease, read_lease_change
from corral.views.leases.lease import requested_lease

DURATIONS = st.sampled_from(["1m", "90s", "30m", "1h30m", "8h", "2d"])
PERCENT = st.sampled_from([0.5, 5.0, 10.0, 99.5, 100.0])
SIGNALS = st.lists(st.sampled_from(["gpu", "cpu", "lastUsed"]), min_size=1, unique=True)
CRON = st.sampled_from(["0 20 * * 1-5", "30 8 * * *", "0 0 1 * *"])
PLAIN: dict[str, Any] = {"maxDuration": None, "idle": None, "schedule": None, "onEnd": "stop", "grace": "10m"}
IDLE: dict[str, Any] = {"gpuBelow": 5.0, "cpuBelow": 10.0, "signals": ["gpu", "cpu", "lastUsed"]}
SCHEDULE: dict[str, Any] = {"stop": None, "start": None, "timezone": "UTC"}


def maybe(fields: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Null, or an object with some of *fields*, each perhaps null."""
    return st.none() | st.fixed_dictionaries({}, optional={name: st.none() | value for name, value in fields.items()})


PATCHES = maybe({
    "maxDuration": DURATIONS,
    "idle": maybe({"after": DURATIONS, "gpuBelow": PERCENT, "cpuBelow": PERCENT, "signals": SIGNALS}),
    "schedule": maybe({"stop": CRON, "start": CRON, "timezone": st.sampled_from(["UTC", "Europe/Berlin"])}),
    "onEnd": st.sampled_from(["stop", "delete"]),
    "grace": st.sampled_from(["0s", "1m30s", "10m", "1d"]),
}).filter(lambda patch: patch is not None)  # fmt: skip


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def completed(lease: dict[str, Any]) -> dict[str, Any] | None:
    """*lease* with the documented defaults and in one spelling; None if it must be refused."""
    full = {**PLAIN, **lease}
    if full["idle"] is not None:
        if "after" not in full["idle"]:
            return None
        full["idle"] = {**IDLE, **full["idle"]}
        full["idle"]["signals"] = [name for name in IDLE["signals"] if name in full["idle"]["signals"]]
    if full["schedule"] is not None:
        full["schedule"] = {**SCHEDULE, **full["schedule"]}
        if full["schedule"]["stop"] is None and full["schedule"]["start"] is None:
            return None
    spelt: dict[str, Any] = _spelt(full)
    return spelt


def _spelt(value: Any) -> Any:
    """90s and 1m30s are the same."""
    if isinstance(value, dict):
        return {name: _spelt(each) for name, each in value.items()}
    return "1m30s" if value == "90s" else value


def shown(lease: Lease) -> Any:
    return msgspec.to_builtins(requested_lease(lease))


@given(first=PATCHES, patches=st.lists(PATCHES, max_size=4))
def test_a_change_is_a_merge_patch_of_what_is_shown(first: Any, patches: list[Any]) -> None:
    """Refused exactly where the merged lease is incomplete; then nothing changes."""
    limits = LeaseDefaults()
    target = completed(merged({}, first))
    lease, problems = read_lease({"lease": first}, limits)
    assert bool(problems) == (target is None)
    if target is None:
        return
    if lease is None:  # nothing would end it, so nothing of it is kept
        lease, target = Lease(), PLAIN
    for patch in patches:
        expected = completed(merged(target, patch))
        change = read_lease_change(patch)
        assert not isinstance(change, tuple)
        result = changed(lease, change, limits)
        assert isinstance(result, tuple) == (expected is None)
        if not isinstance(result, tuple) and expected is not None:
            lease, target = result, expected
        if not lease.is_empty:
            assert shown(lease) == target


@given(first=PATCHES)
def test_what_is_shown_can_be_sent_again(first: Any) -> None:
    """To create another one with the same lease, whatever the defaults are."""
    lease, problems = read_lease({"lease": first}, LeaseDefaults())
    if problems or lease is None:
        return
    for limits in (LeaseDefaults(), LeaseDefaults(max_duration=lease.grace, idle_after=lease.grace)):
        assert read_lease({"lease": shown(lease)}, limits) == (lease, ())
