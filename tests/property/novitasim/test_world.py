"""What holds in the simulated world for every history."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from novitasim.api.call import Call, RenderCache
from novitasim.api.endpoints import RealisticEndpoints
from novitasim.api.instances import list_all
from novitasim.api.refusal import RefusalError
from novitasim.settings import Settings, changed
from novitasim.world import commands, spot
from novitasim.world.billing import bills, charges, ledger, prices
from novitasim.world.instance import NEVER, Instance, Order
from novitasim.world.timeline import MachineShare
from novitasim.world.world import PriceSet, World

T0 = 1_790_000_000.0
PLACES = (("4090.16c62g", "us-ca-6"), ("4090.16c62g", "as-sgp-2"))

Deed = tuple[str, int, float]

deeds = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "create",
                "start",
                "stop",
                "restart",
                "delete",
                "migrate",
                "notice",
                "reclaim",
                "vanish",
                "hide",
                "price",
                "wait",
            )
        ),
        st.integers(0, 7),
        st.floats(0, 40),
    ),
    max_size=40,
)


def do(world: World, deed: Deed, now: float) -> None:
    """One thing that a customer or the world may do; refusals are part of life."""
    kind, which, _ = deed
    if kind == "create":
        product, cluster = PLACES[which % 2]
        billing_mode = "spot" if which % 3 == 0 else "onDemand"
        order = Order(
            name=f"request-{which % 4}",
            product_id=product,
            gpus=1 + which % 2,
            rootfs_gb=10 + 30 * which,
            image="broken" if which == 7 else "fine",
            cluster_id=cluster,
            billing_mode=billing_mode,
        )
        commands.create(world, order, now)
        return
    if kind == "price":
        prices.change(world, PriceSet(PLACES[0][0], 30_000 + which, 15_000 + which), now)
        return
    known = list(world.instances.values())
    if not known or kind == "wait":
        return
    instance = world.find(known[which % len(known)].id, now)
    acts: dict[str, Callable[[World, Instance, float], Instance]] = {
        "start": commands.start,
        "stop": commands.stop,
        "restart": commands.restart,
        "delete": commands.delete,
        "migrate": commands.migrate,
        "vanish": lambda w, i, t: w.put(spot.vanish(i, t), t),
        "hide": lambda w, i, t: w.put(spot.vanish(i, t, seconds=5), t),
        "notice": lambda w, i, t: w.put(spot.notice(i, w.settings, t), t) if i.spot else i,
        "reclaim": lambda w, i, t: w.put(spot.reclaim(i, w.settings, t), t) if i.spot else i,
    }
    acts[kind](world, instance, now)


def live(world: World, story: list[Deed]) -> list[float]:
    """Play a story; returns the instants at which something was done."""
    now, instants = T0, [T0]
    for deed in story:
        now += deed[2]
        world.settle(now)
        try:
            do(world, deed, now)
        except RefusalError:
            pass
        else:
            instants.append(now)
        check_stock(world, now)
    return [*instants, now + 100]


def check_stock(world: World, now: float) -> None:
    for place in PLACES:
        holders = [i for i in world.instances.values() if (i.order.product_id, i.order.cluster_id) == place]
        held = sum(i.order.gpus for i in holders if i.claim(now) is not MachineShare.NOTHING)
        assert world.stock.held(place) == held
        assert held <= world.settings.stock
        assert world.left(place, now) == world.settings.stock - held


@given(deeds)
@settings(deadline=None)
def test_stock_is_exactly_what_instances_hold_and_never_negative(story: list[Deed]) -> None:
    world = World(settings=changed(Settings(), {"stock": 4, "spot_notice_seconds": 10}))

    instants = live(world, story)
    world.settle(instants[-1])

    check_stock(world, instants[-1])


@given(deeds)
@settings(deadline=None)
def test_billed_seconds_are_the_time_spent_in_billed_claims(story: list[Deed]) -> None:
    """The ledger integrates; here the same is measured by looking at every instance at every change."""
    world = World(settings=changed(Settings(), {"stock": 4, "spot_notice_seconds": 10}))
    end = live(world, story)[-1]

    for instance in world.instances.values():
        edges = {step.at for step in instance.course} | {instance.hidden_from, instance.hidden_until, end}
        instants = sorted(at for at in edges if instance.created_at <= at <= end)
        looked = sum(
            later - earlier for earlier, later in pairwise(instants) if instance.claim(earlier) is MachineShare.BILLED
        )
        booked = sum(b - a for a, b in charges.periods(instance, end))
        assert booked == pytest.approx(looked)


@given(deeds, st.sampled_from(sorted(bills.CYCLES)), st.sampled_from(("running", "new")))
@settings(deadline=None)
def test_the_rows_of_the_bill_add_up_to_the_settled_charges(story: list[Deed], cycle: str, price_change: str) -> None:
    """To the last fraction, in every cycle, and with every price that an instance had."""
    quirks = {"stock": 4, "spot_notice_seconds": 10, "bill_lag_seconds": 0, "price_change": price_change}
    world = World(settings=changed(Settings(), quirks))
    slow = [(kind, which, wait * 997) for kind, which, wait in story]
    now = live(world, slow)[-1]

    rows = bills.rows(world, now, cycle=cycle, since=0, until=int(now))

    assert sum(row.usd for row in rows) == bills.settled_usd(world, now)
    for instance in world.instances.values():
        charged = charges.of_instance(instance, world.settings, now)
        spent = charges.total(charged)
        assert round(float(spent), 6) == ledger.read([instance], now, settings=world.settings).usd
        assert {charge.unit_e5 for charge in charged if charge.kind == "gpu"} <= {
            *(terms.rate_e5 / terms.gpus for terms in instance.terms)
        }


@given(deeds)
@settings(deadline=None)
def test_a_course_keeps_its_order_its_past_and_a_promised_removal(story: list[Deed]) -> None:
    world = World(settings=changed(Settings(), {"stock": 4, "spot_notice_seconds": 10}))
    seen: dict[str, list[object]] = {}
    promised: dict[str, float] = {}
    now = T0
    for deed in story:
        now += deed[2]
        world.settle(now)
        try:
            do(world, deed, now)
        except RefusalError:
            continue
        for instance in world.instances.values():
            instants = [step.at for step in instance.course]
            past = [step for step in instance.course if step.at < now]
            assert instants == sorted(instants)
            assert past[: len(seen.get(instance.id, []))] == seen.get(instance.id, [])
            seen[instance.id] = list(past)
            assert instance.removed_at() == promised.get(instance.id, instance.removed_at())
            is_purge = instance.removed_at() == instance.data_until  # which a start prevents
            if instance.removed_at() < NEVER and not is_purge:
                promised[instance.id] = instance.removed_at()


@given(
    count=st.integers(0, 40),
    size=st.integers(1, 15),
    cap=st.integers(0, 12),
    base=st.sampled_from((0, 1)),
    order=st.sampled_from(("newest", "oldest")),
    fuzzy=st.sampled_from(("", "request")),
)
@settings(deadline=None)
def test_pages_part_the_list_for_any_size_and_base(
    *, count: int, size: int, cap: int, base: int, order: str, fuzzy: str
) -> None:
    quirks: dict[str, object] = {"page_size_cap": cap, "page_base": base, "list_order": order}
    world = World(settings=changed(Settings(), quirks))
    wanted = Order(name="request", product_id=PLACES[0][0], gpus=1, rootfs_gb=10, image="fine", cluster_id=PLACES[0][1])
    made = [commands.create(world, wanted, T0 + number).id for number in range(count)]
    now = T0 + count
    world.settle(now)

    paged: list[str] = []
    for number in range(base, base + 60):
        query = {"pageSize": str(size), "pageNum": str(number), "name": fuzzy}
        call = Call(world=world, now=now, endpoints=RealisticEndpoints(), cache=RenderCache(), query=query)
        page = _ids(list_all(call).content)
        assert len(page) <= (min(size, cap) if cap else size)
        paged += page

    assert paged == (made if order == "oldest" else made[::-1])


def _ids(content: bytes) -> list[str]:
    body = msgspec.json.decode(content)
    return [item["id"] for item in body["instances"]]
