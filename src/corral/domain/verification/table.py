"""
Every assumption about the provider that `corral verify` checks.

`docs/reference/verification.md` is made from this list. A test falsifies each on the simulator: a check that cannot
differ is none.
"""

from __future__ import annotations

from typing import Final

from corral.domain.verification.checks import (
    bills,
    creation,
    ending,
    listing,
    lookup,
    measurements,
    products,
    refusals,
    templates,
)
from corral.domain.verification.judge import Check

CHECKS: Final[tuple[Check, ...]] = (
    *listing.CHECKS,
    *lookup.CHECKS,
    *products.CHECKS,
    *templates.CHECKS,
    *refusals.CHECKS,
    *measurements.CHECKS,
    *bills.CHECKS,
    *creation.CHECKS,
    *ending.CHECKS,
)
