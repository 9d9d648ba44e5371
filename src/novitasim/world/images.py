"""How long an image is pulled, and whether it can be."""

from __future__ import annotations

from novitasim.world.account import BROKEN_IMAGE, PRIVATE_REGISTRY
from novitasim.world.instance import Order
from novitasim.world.world import World

PULL_ENV = "SIM_PULL_SECONDS"
"""The variable of an instance that sets for how many seconds its image is pulled."""


def pull_seconds(order: Order, drawn: float) -> float:
    """How long the image is pulled: what its environment says, else what the settings drew."""
    asked = next((env.value for env in order.envs if env.key == PULL_ENV), "")
    return float(asked) if asked.isdecimal() else drawn


def pull_trouble(world: World, order: Order) -> str | None:
    """Why the image cannot be pulled, if it cannot."""
    if BROKEN_IMAGE in order.image:
        return f"failed to pull image {order.image}: manifest unknown"
    if not order.image.startswith(PRIVATE_REGISTRY):
        return None
    accepted = {f"{auth.username}:{auth.password}" for auth in world.auths.values()}
    if order.image_auth_id or order.image_auth in accepted:
        return None
    return f"failed to pull image {order.image}: unauthorized"
