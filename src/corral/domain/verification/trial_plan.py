"""Which machine a trial creates, how long it may exist, and what it may cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.domain.verification.json_values import array, number, text

BOOT_SECONDS: Final = 300.0
"""How long to wait until it runs. Shorter, and a slow pull of a small image ends the trial; longer costs money."""
SAMPLES_SECONDS: Final = 120.0
"""How long to wait for its first measurements, which are about a minute late."""
STOP_SECONDS: Final = 120.0
START_SECONDS: Final = 120.0
REMOVE_SECONDS: Final = 180.0
"""How long to repeat the delete until the machine is gone. After it a person must act."""
TRIAL_SECONDS: Final = BOOT_SECONDS + SAMPLES_SECONDS + STOP_SECONDS + START_SECONDS + REMOVE_SECONDS + 60.0
"""How long the machine exists at most: every step, and a minute for the calls between them."""
MICRO_USD_PER_UNIT: Final = 10
IMAGE: Final = "docker.io/library/nginx:1.29-alpine"
"""Small, so that it is pulled within seconds, and it keeps running and answers on a port without any configuration."""
PORT: Final = 80
ROOTFS_GB: Final = 10
"""The least; disks up to 60 GB are free."""
NO_PRODUCT: Final = "corral-verify-no-such-product"
"""Sent once, to see how a create is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOffer:
    """The product that a trial takes."""

    product_id: str
    product_name: str
    micro_usd: int
    """Per hour."""

    @property
    def most_micro_usd(self) -> int:
        """What the trial costs at most, rounded up."""
        return math.ceil(self.micro_usd * TRIAL_SECONDS / 3600)


def cheapest(products: Iterable[Mapping[str, object]]) -> TrialOffer | None:
    """The cheapest product that is in stock on demand; None if there is none."""
    offers = [
        TrialOffer(
            product_id=product_id,
            product_name=text(item.get("name")),
            micro_usd=round(price * MICRO_USD_PER_UNIT),
        )
        for item in products
        if item.get("availableDeploy") is True
        and (product_id := text(item.get("id")))
        and (price := number(item.get("price")) or 0) > 0
        and "onDemand" in array(item.get("billingMethods"))
    ]
    return min(offers, key=lambda offer: (offer.micro_usd, offer.product_id), default=None)
