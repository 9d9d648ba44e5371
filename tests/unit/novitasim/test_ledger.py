"""The ledger: what was billed, for how long, and whether twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from novitasim.world import spot
from novitasim.world.billing import charges, ledger
from novitasim.world.instance import Instance, Order
from novitasim.world.timeline import MachineShare, Status, Step

T0 = 1000.0


def billed(name: str, *stretches: tuple[float, float], rate_e5: int = 36_000, seq: int = 1) -> Instance:
    """An instance that was billed for exactly these stretches."""
    steps = [Step(T0, Status.CREATING, MachineShare.HOST)]
    for begin, end in stretches:
        steps += [Step(begin, Status.RUNNING, MachineShare.BILLED), Step(end, Status.EXITED, MachineShare.NOTHING)]
    order = Order(name=name, product_id="p", gpus=1, rootfs_gb=10, image="i")
    return Instance(
        id=f"{name}-{seq}",
        seq=seq,
        order=order,
        rate_e5=rate_e5,
        created_at=T0,
        listed_at=T0,
        found_at=T0,
        course=tuple(steps),
    )


def test_each_second_is_billed_at_the_hourly_rate() -> None:
    read = ledger.read([billed("a", (1100, 1200), (1300, 1400))], 5000)

    assert read.bills[0].periods == ((1100, 1200), (1300, 1400))
    assert (read.seconds, read.usd) == (200, 0.02)


def test_what_lies_ahead_is_not_billed() -> None:
    read = ledger.read([billed("a", (1100, 1200))], 1150)

    assert (read.seconds, read.billed_now) == (50, 1)


def test_two_of_one_name_at_one_instant_are_billed_twice() -> None:
    read = ledger.read([billed("a", (1100, 1200)), billed("a", (1199, 1300), seq=2)], 5000)

    assert read.twice == {"a": 2}
    assert read.most_at_once == 2


def test_one_that_begins_as_the_other_ends_is_not_twice() -> None:
    read = ledger.read([billed("a", (1100, 1200)), billed("a", (1200, 1300), seq=2)], 5000)

    assert read.twice == {}
    assert read.at_once == {"a": 1}


def test_a_pattern_groups_names_into_requests() -> None:
    instances = [billed("corral-7-x", (1100, 1200)), billed("corral-7-y", (1150, 1250)), billed("corral-8-x")]

    read = ledger.read(instances, 5000, r"^corral-(\d+)-")

    assert read.at_once == {"7": 2, "8": 0}
    assert ledger.read(instances, 5000).twice == {}


@pytest.mark.parametrize("pattern", ["(", "no group", "(two)(groups)"])
def test_a_pattern_without_exactly_one_group_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"regular expression|exactly one group"):
        ledger.read([], 0, pattern)


def test_a_vanished_instance_is_billed_until_it_vanished() -> None:
    gone = spot.vanish(billed("a", (1100, 2000)), 1500)
    hidden = spot.vanish(billed("a", (1100, 2000)), 1500, seconds=100)

    assert charges.periods(gone, 5000) == ((1100, 1500),)
    assert charges.periods(hidden, 5000) == ((1100, 2000),)


def test_touching_steps_are_one_stretch() -> None:
    instance = billed("a", (1100, 1200))
    course = (*instance.course[:-1], Step(1150, Status.TO_STOP, MachineShare.BILLED), instance.course[-1])

    assert charges.periods(replace(instance, course=course), 5000) == ((1100, 1200),)
