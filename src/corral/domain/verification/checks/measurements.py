"""What Corral assumes about measurements and money."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from corral.domain.leases.idle import MOST_LATE
from corral.domain.leases.samples import MOST_DISTANCE
from corral.domain.verification.evidence import AccountProbe, DiffersError, Evidence, NotSeenError
from corral.domain.verification.json_values import Kind, fits, kind_of, mapping, number, objects, wrong_fields
from corral.domain.verification.judge import Check

LATEST_SAMPLE: Final = MOST_LATE + 2 * MOST_DISTANCE
"""Older than this, no measurement speaks for the present."""
_SERIES: Final = ("cpuUtilization", "memUtilization", "rootDiskUtilization")
_GPU_SERIES: Final = ("gpuUtilization", "gpuMemUtilization")
_SAMPLE: Final[Mapping[str, Kind]] = {"timestamp": Kind.NUMERIC, "value": Kind.NUMERIC}
_PERCENT: Final = 100.0
_YEAR_2020, _YEAR_2100 = 1_577_836_800, 4_102_444_800
_BALANCE: Final[Mapping[str, Kind]] = {
    "availableBalance": Kind.WHOLE_TEXT,
    "cashBalance": Kind.WHOLE_TEXT,
    "creditLimit": Kind.WHOLE_TEXT,
    "pendingCharges": Kind.WHOLE_TEXT,
    "outstandingInvoices": Kind.WHOLE_TEXT,
}
_DENIED: Final = frozenset({401, 403})


def _metrics(seen: Evidence) -> str:
    content = _content(seen)
    wrong = [f"`{name}` is {_kind(content, name)}" for name in _SERIES if not fits(content.get(name), Kind.ARRAY)]
    for name in _GPU_SERIES:
        series = mapping(content.get(name))
        wrong += [f"`{name}.{part}` is {_kind(series, part)}" for part in ("avg", "gpuIds") if _lacks(series, part)]
    wrong += wrong_fields(_samples(seen), _SAMPLE)
    if wrong:
        raise DiffersError("; ".join(wrong))
    return f"{len(_SERIES) + len(_GPU_SERIES)} series of {{timestamp, value}}"


def _lateness(seen: Evidence) -> str:
    received = seen.answer(AccountProbe.METRICS).received_at
    times = [number(sample.get("timestamp")) for sample in _some_samples(seen)]
    known = [at for at in times if at is not None and _YEAR_2020 <= at < _YEAR_2100]
    if not known:
        raise DiffersError("`timestamp` is not in unix seconds")
    age = (received - datetime.fromtimestamp(max(known), UTC)).total_seconds()
    if age > LATEST_SAMPLE.total_seconds():
        raise DiffersError(f"the newest sample is {age:.0f} s old")
    return f"the newest sample is {max(0.0, age):.0f} s old"


def _unit(seen: Evidence) -> str:
    values = [value for sample in _some_samples(seen) if (value := number(sample.get("value"))) is not None]
    if not any(values):
        raise NotSeenError("every sample is 0")
    if max(values) <= 1:
        raise DiffersError("every sample is between 0 and 1")
    if max(values) > _PERCENT or min(values) < 0:
        raise DiffersError(f"samples from {min(values):g} to {max(values):g}")
    return f"samples from {min(values):g} to {max(values):g}"


def _balance(seen: Evidence) -> str:
    answer = seen.answer(AccountProbe.BALANCE)
    if answer.status in _DENIED:
        raise NotSeenError("the key may not read the balance")
    wrong = wrong_fields([seen.content(AccountProbe.BALANCE)], _BALANCE)
    if wrong:
        raise DiffersError("; ".join(wrong))
    return f"{len(_BALANCE)} whole numbers as text"


def _content(seen: Evidence) -> Mapping[str, object]:
    if AccountProbe.METRICS not in seen.answers:
        raise NotSeenError("the account has no running instance")
    return seen.content(AccountProbe.METRICS)


def _samples(seen: Evidence) -> list[Mapping[str, object]]:
    content = _content(seen)
    found = [sample for name in _SERIES for sample in objects(content.get(name))]
    return found + [sample for name in _GPU_SERIES for sample in objects(mapping(content.get(name)).get("avg"))]


def _some_samples(seen: Evidence) -> list[Mapping[str, object]]:
    found = _samples(seen)
    if not found:
        raise NotSeenError("there were no samples")
    return found


def _lacks(series: Mapping[str, object], part: str) -> bool:
    return not fits(series.get(part), Kind.ARRAY)


def _kind(content: Mapping[str, object], name: str) -> str:
    return kind_of(content[name]) if name in content else "missing"


CHECKS: Final = (
    Check(
        id="metrics.fields",
        assumes="metrics are arrays of samples for CPU, memory and disk, and averages with each GPU for the GPUs",
        otherwise="a series that cannot be read is missing in plots, and no idle rule ends a machine without it",
        judge=_metrics,
    ),
    Check(
        id="metrics.late",
        assumes="samples are about one minute late, at most three",
        otherwise="a machine counts as active: no idle rule ever ends it",
        judge=_lateness,
    ),
    Check(
        id="metrics.unit",
        assumes="samples are percent, from 0 to 100",
        otherwise="samples that are all at most 1 count as unknown: no idle rule ever ends a machine",
        judge=_unit,
    ),
    Check(
        id="account.balance",
        assumes="the balance is text of whole numbers, in 1/10000 USD",
        otherwise="the balance is not shown, or is wrong by the factor of another unit",
        copes=False,
        judge=_balance,
    ),
)
