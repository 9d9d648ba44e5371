"""New prices: in the catalog from now on, and for existing instances too where the settings say so."""

from __future__ import annotations

import dataclasses

from novitasim.world.world import PriceSet, World


def change(world: World, new: PriceSet, now: float) -> int:
    """New prices of a product, for existing instances too if the settings say so; returns for how many."""
    world.set_price(new)
    if world.settings.price_change == "new":
        return 0
    meant = [
        instance
        for instance in world.instances.values()
        if instance.order.product_id == new.product_id
        and instance.order.billing_mode in {"onDemand", "spot"}
        and instance.removed_at() > now
    ]
    for instance in meant:
        price = new.spot_e5 if instance.order.billing_mode == "spot" else new.price_e5
        world.put(dataclasses.replace(instance, rate_e5=price * instance.order.gpus), now)
    return len(meant)
