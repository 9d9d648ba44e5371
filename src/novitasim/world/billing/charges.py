"""
What the account is charged for: periods of instances and storages, each at one price. Pure; every sum is exact.

GPUs are charged by the second from *pulling* until the instance is stopped. Disk above the free part is charged while
the instance exists, also while it is stopped and until its data is purged. A network storage is charged for its size.
Charges follow from timelines and terms, whose past never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from novitasim.settings import Settings
from novitasim.world.account import Storage
from novitasim.world.instance import NEVER, Instance, Terms
from novitasim.world.timeline import MachineShare
from novitasim.world.world import World

Interval = tuple[float, float]

HOUR_SECONDS = 3600
DAY_SECONDS = 86_400
# 1/100000 USD per GB and day, as published: disk of an instance, network storage.
DISK_E5 = 500
STORAGE_E5 = 200

_E5 = 100_000
MICROS = 1_000_000


class Kind(StrEnum):
    """What is charged."""

    GPU = "gpu"
    DISK = "disk"
    STORAGE = "storage"

    @property
    def unit_seconds(self) -> int:
        """The time that a unit price is for: an hour of a GPU, a day of a GB."""
        return HOUR_SECONDS if self is Kind.GPU else DAY_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One period of one thing at one price; *quantity* is GPUs or GB, *unit_e5* the price of one of them."""

    kind: Kind
    owner: str
    begin: float
    end: float
    quantity: int
    unit_e5: int

    def micros(self, since: float = 0.0, until: float = NEVER) -> int:
        """The microseconds of it that lie in [since, until); instants count to the microsecond."""
        return max(round(min(self.end, until) * MICROS) - round(max(self.begin, since) * MICROS), 0)

    def seconds(self, since: float = 0.0, until: float = NEVER) -> Fraction:
        """The seconds of it that lie in [since, until)."""
        return Fraction(self.micros(since, until), MICROS)

    def usd(self, since: float = 0.0, until: float = NEVER) -> Fraction:
        """US dollars for the part in [since, until)."""
        return usd_of(self.kind, self.micros(since, until) * self.quantity, self.unit_e5)


def usd_of(kind: Kind, micros: int, unit_e5: int) -> Fraction:
    """US dollars for so many units times microseconds."""
    return Fraction(micros * unit_e5, MICROS * _E5 * kind.unit_seconds)


def total(charges: Iterable[Charge]) -> Fraction:
    """US dollars for all of them."""
    return sum((charge.usd() for charge in charges), Fraction(0))


def of_account(world: World, now: float) -> list[Charge]:
    """Every charge of the account up to *now*."""
    instances = (of_instance(instance, world.settings, now) for instance in world.instances.values())
    storages = (*world.storages.values(), *world.deleted_storages.values())
    return [
        *(charge for found in instances for charge in found),
        *(charge for storage in storages for charge in of_storage(storage, now)),
    ]


def of_instance(instance: Instance, settings: Settings, now: float) -> list[Charge]:
    """The charges of an instance up to *now*: GPUs, then disk."""
    found: list[Charge] = []
    for begin, end in periods(instance, now):
        for since, until, terms in _by_terms(instance, begin, end):
            gpus = max(terms.gpus, 1)
            unit = terms.rate_e5 // gpus
            charge = Charge(kind=Kind.GPU, owner=instance.id, begin=since, end=until, quantity=gpus, unit_e5=unit)
            found.append(charge)
    for begin, end in _disk_periods(instance, settings, now):
        for since, until, terms in _by_terms(instance, begin, end):
            above = terms.disk_gb - settings.disk_free_gb
            if above > 0:
                charge = Charge(
                    kind=Kind.DISK, owner=instance.id, begin=since, end=until, quantity=above, unit_e5=DISK_E5
                )
                found.append(charge)
    return found


def of_storage(storage: Storage, now: float) -> list[Charge]:
    """The charges of a network storage up to *now*."""
    ends = (*(size.at for size in storage.sizes[1:]), NEVER)
    return [
        Charge(
            kind=Kind.STORAGE,
            owner=storage.id,
            begin=size.at,
            end=min(end, now),
            quantity=size.size_gb,
            unit_e5=STORAGE_E5,
        )
        for size, end in zip(storage.sizes, ends, strict=False)
        if size.size_gb and size.at < min(end, now)
    ]


def periods(instance: Instance, now: float) -> tuple[Interval, ...]:
    """The periods in which the GPUs of an instance are charged, up to *now*, joined where they touch."""
    return _periods(instance, now, frozenset({MachineShare.BILLED}))


def _periods(instance: Instance, now: float, shares: frozenset[MachineShare]) -> tuple[Interval, ...]:
    end = instance.hidden_from if instance.hidden_until == NEVER else NEVER
    found: list[Interval] = []
    steps = instance.course
    for index, step in enumerate(steps):
        if step.claim not in shares:
            continue
        until = steps[index + 1].at if index + 1 < len(steps) else NEVER
        begin, until = step.at, min(until, end, now)
        if until <= begin:
            continue
        if found and found[-1][1] == begin:
            found[-1] = (found[-1][0], until)
        else:
            found.append((begin, until))
    return tuple(found)


def _disk_periods(instance: Instance, settings: Settings, now: float) -> Iterator[Interval]:
    paid = (step.at for step in instance.course if step.claim is MachineShare.BILLED)
    first = instance.created_at if settings.disk_billed_from == "created" else next(paid, NEVER)
    shares = (
        frozenset(MachineShare)
        if settings.stopped_disk == "billed"
        else frozenset(MachineShare) - {MachineShare.NOTHING}
    )
    last = min(instance.removed_at(), instance.data_until)
    for begin, end in _periods(instance, now, shares):
        if max(begin, first) < min(end, last):
            yield max(begin, first), min(end, last)


def _by_terms(instance: Instance, begin: float, end: float) -> Iterator[tuple[float, float, Terms]]:
    """The parts of a period, each with the terms in force; the first terms count for all the time before, too."""
    order = instance.order
    terms = instance.terms or (
        Terms(at=instance.created_at, rate_e5=instance.rate_e5, gpus=order.gpus, disk_gb=order.rootfs_gb),
    )
    for index, each in enumerate(terms):
        since = begin if index == 0 else max(begin, each.at)
        until = min(end, terms[index + 1].at) if index + 1 < len(terms) else end
        if since < until:
            yield since, until, each
