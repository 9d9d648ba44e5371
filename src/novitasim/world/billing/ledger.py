"""
Which instances were billed, when, for how much, and whether twice. Tests judge a client by it.

Read from the instances' timelines; their past never changes. A *request* is one create request of a client's user:
instances are grouped into requests by their name, or by the one group of a regular expression over the name. Two
instances of one request that are billed at the same instant are money spent twice.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from novitasim.settings import Settings
from novitasim.world.billing import charges
from novitasim.world.billing.charges import Charge, Interval, Kind
from novitasim.world.instance import Instance
from novitasim.world.timeline import MachineShare


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What one instance cost so far; *periods* and *seconds* are those of its GPUs, *charges* the exact sums' parts."""

    id: str
    name: str
    request: str
    product_id: str
    cluster_id: str
    billing_mode: str
    usd_per_hour: float
    periods: tuple[Interval, ...]
    seconds: float
    usd: float
    gpu_usd: float
    disk_usd: float
    charges: tuple[Charge, ...]
    billed_now: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All bills, and for each request the most instances that were ever billed at once."""

    bills: tuple[Bill, ...]
    at_once: dict[str, int]
    seconds: float
    usd: float
    billed_now: int

    @property
    def most_at_once(self) -> int:
        """The maximum over all requests: above 1, a user paid twice."""
        return max(self.at_once.values(), default=0)

    @property
    def twice(self) -> dict[str, int]:
        """The requests that were billed more than once at a time."""
        return {request: count for request, count in self.at_once.items() if count > 1}


def at_once(stretches: Iterable[Interval]) -> int:
    """The most periods that share an instant; one that begins as another ends does not overlap it."""
    edges = sorted((at, delta) for begin, end in stretches for at, delta in ((begin, 1), (end, -1)))
    now = most = 0
    for _, delta in edges:
        now += delta
        most = max(most, now)
    return most


def read(
    instances: Iterable[Instance], now: float, pattern: str | None = None, *, settings: Settings | None = None
) -> Ledger:
    """The ledger of *instances*; raises ValueError unless *pattern* is a regular expression with one group."""
    request_of, chosen = _grouping(pattern), settings or Settings()
    bills = tuple(_bill(instance, chosen, now, request_of(instance.order.name)) for instance in instances)
    stretches: defaultdict[str, list[Interval]] = defaultdict(list)
    for bill in bills:
        stretches[bill.request].extend(bill.periods)
    return Ledger(
        bills=bills,
        at_once={request: at_once(of_request) for request, of_request in stretches.items()},
        seconds=round(sum(bill.seconds for bill in bills), 6),
        usd=round(sum(bill.usd for bill in bills), 6),
        billed_now=sum(bill.billed_now for bill in bills),
    )


def _bill(instance: Instance, settings: Settings, now: float, request: str) -> Bill:
    charged = charges.of_instance(instance, settings, now)
    billed = charges.periods(instance, now)
    gpu_usd = charges.total(charge for charge in charged if charge.kind is Kind.GPU)
    disk_usd = charges.total(charge for charge in charged if charge.kind is Kind.DISK)
    return Bill(
        id=instance.id,
        name=instance.order.name,
        request=request,
        product_id=instance.order.product_id,
        cluster_id=instance.order.cluster_id,
        billing_mode=instance.order.billing_mode,
        usd_per_hour=instance.rate_e5 / 100_000,
        periods=billed,
        seconds=round(sum(end - begin for begin, end in billed), 6),
        usd=round(float(gpu_usd + disk_usd), 6),
        gpu_usd=round(float(gpu_usd), 6),
        disk_usd=round(float(disk_usd), 6),
        charges=tuple(charged),
        billed_now=instance.claim(now) is MachineShare.BILLED,
    )


class _Grouping:
    def __init__(self, compiled: re.Pattern[str] | None) -> None:
        self._compiled = compiled

    def __call__(self, name: str) -> str:
        found = self._compiled.search(name) if self._compiled else None
        return found.group(1) or name if found else name


def _grouping(pattern: str | None) -> _Grouping:
    if not pattern:
        return _Grouping(None)
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    if compiled.groups != 1:
        raise ValueError(f"{pattern!r} must have exactly one group, the request")
    return _Grouping(compiled)
