"""What is charged: GPUs, disks and storages, each at the price of its time."""

from __future__ import annotations

from fractions import Fraction

import pytest

from novitasim.settings import Settings, changed
from novitasim.world import commands
from novitasim.world.account import Storage, StorageSize
from novitasim.world.billing import bills, charges, prices
from novitasim.world.billing.charges import Kind
from novitasim.world.instance import Instance, Order
from novitasim.world.world import PriceSet, World

T0 = 1_790_812_800.0  # midnight
HOUR, DAY = 3600, 86_400
PRODUCT = "4090.16c62g"


def make_world(**quirks: object) -> World:
    times = {"boot_seconds": 10, "pull_seconds": 20, "stop_seconds": 10, "start_seconds": 10, "remove_seconds": 10}
    return World(settings=changed(Settings(), times | quirks))


def make(world: World, *, disk: int = 60, gpus: int = 1, mode: str = "onDemand", image: str = "fine") -> Instance:
    order = Order(
        name="a",
        product_id=PRODUCT,
        gpus=gpus,
        rootfs_gb=disk,
        image=image,
        cluster_id="us-ca-6",
        billing_mode=mode,
    )
    return commands.create(world, order, T0)


def usd(world: World, kind: Kind, now: float) -> float:
    return float(charges.total(charge for charge in charges.of_account(world, now) if charge.kind is kind))


def test_gpus_are_charged_from_pulling_until_stopped() -> None:
    world = make_world()
    instance = make(world, gpus=2)
    commands.stop(world, instance, T0 + 10 + HOUR - 10)

    assert usd(world, Kind.GPU, T0 + DAY) == pytest.approx(2 * 0.35)
    assert usd(world, Kind.DISK, T0 + DAY) == 0


@pytest.mark.parametrize(("quirks", "days"), [({}, 7), ({"stopped_disk": "free"}, 1), ({"keep_data_days": 2}, 3)])
def test_disk_above_60_gb_is_charged_also_of_a_stopped_instance_until_its_data_is_purged(
    quirks: dict[str, object], days: int
) -> None:
    world = make_world(**quirks)
    instance = make(world, disk=260)
    commands.stop(world, instance, T0 + DAY)

    assert usd(world, Kind.DISK, T0 + 7 * DAY + 10) == pytest.approx(days * 200 * 0.005, abs=0.001)


@pytest.mark.parametrize(("charged_from", "seconds"), [("pulling", 0), ("created", DAY)])
def test_a_failed_creation_has_no_disk_unless_the_provider_charges_from_the_call_on(
    charged_from: str, seconds: int
) -> None:
    world = make_world(disk_billed_from=charged_from)
    make(world, disk=160, image="broken")

    assert usd(world, Kind.DISK, T0 + DAY) == pytest.approx(seconds / DAY * 100 * 0.005)
    assert usd(world, Kind.GPU, T0 + DAY) == 0


@pytest.mark.parametrize(("applies_to", "second_hour"), [("running", 0.50), ("new", 0.35)])
def test_a_new_price_counts_from_its_instant_on(applies_to: str, second_hour: float) -> None:
    world = make_world(price_change=applies_to)
    make(world)
    prices.change(world, PriceSet(PRODUCT, 50_000, 20_000), T0 + 10 + HOUR)
    later = commands.create(world, Order(name="b", product_id=PRODUCT, gpus=1, rootfs_gb=60, image="i"), T0 + HOUR)

    assert usd(world, Kind.GPU, T0 + 10 + 2 * HOUR) == pytest.approx(0.35 + second_hour + 0.5)
    assert later.rate_e5 == 50_000


def test_a_larger_disk_does_not_reach_into_the_past() -> None:
    world = make_world()
    instance = make(world, disk=160)
    commands.edit(world, instance, T0 + 10 + DAY, ports=None, more_disk_gb=100)

    disk = [charge for charge in charges.of_account(world, T0 + 10 + 2 * DAY) if charge.kind is Kind.DISK]

    assert [(charge.quantity, float(charge.seconds())) for charge in disk] == [(100, DAY), (200, DAY)]


def test_a_storage_is_charged_for_every_size_it_had_and_a_seeded_one_is_not() -> None:
    sizes = (
        StorageSize(at=T0, size_gb=100),
        StorageSize(at=T0 + DAY, size_gb=200),
        StorageSize(at=T0 + 3 * DAY, size_gb=0),
    )
    storage = Storage(id="s", name="s", size_gb=0, cluster_id="c", sizes=sizes)

    assert charges.total(charges.of_storage(storage, T0 + 9 * DAY)) == Fraction(2, 1000) * (100 + 2 * 200)
    assert charges.total(charges.of_account(make_world(), T0)) == 0


def test_rows_are_hourly_and_those_of_disks_daily_and_none_appears_before_its_lag() -> None:
    world = make_world(bill_lag_seconds=600)
    make(world, disk=84)

    early = bills.rows(world, T0 + HOUR + 599, cycle="Hour", since=int(T0), until=int(T0 + DAY))
    rows = bills.rows(world, T0 + DAY + 600, cycle="Hour", since=int(T0), until=int(T0 + DAY) - 1)

    assert early == []
    gpu = [row for row in rows if row.kind is Kind.GPU]
    disk = [row for row in rows if row.kind is Kind.DISK]
    assert [(row.begin, row.end) for row in gpu] == [(T0 + n * HOUR, T0 + (n + 1) * HOUR) for n in range(24)]
    assert [row.quantity for row in gpu] == [HOUR - 10] + 23 * [HOUR]
    assert [(row.begin, row.end, float(row.quantity)) for row in disk] == [(T0, T0 + DAY, 24 * (DAY - 10))]


def test_a_price_that_changes_within_an_hour_makes_two_rows_of_it() -> None:
    world = make_world(bill_lag_seconds=0)
    make(world)
    prices.change(world, PriceSet(PRODUCT, 70_000, 20_000), T0 + HOUR / 2)

    rows = bills.rows(world, T0 + HOUR, cycle="Hour", since=int(T0), until=int(T0))

    assert [(float(row.unit_e5), float(row.quantity)) for row in rows] == [(35_000, HOUR / 2 - 10), (70_000, HOUR / 2)]


def test_a_month_paid_in_advance_is_a_subscription_and_not_in_the_hourly_bill() -> None:
    world = make_world(bill_lag_seconds=0)
    instance = make(world, mode="monthly")

    assert bills.rows(world, T0 + DAY, cycle="Hour", since=int(T0), until=int(T0 + DAY)) == []
    assert [(each.instance.id, float(each.usd)) for each in bills.subscriptions(world)] == [(instance.id, 226.8)]
