"""The names of instances and operations."""

from __future__ import annotations

import string
from collections import Counter

from corral.engine.ids import LENGTH, random_id


def test_names_are_all_different_and_of_every_digit_alike() -> None:
    """Ten thousand in a row, so that more than one asking for chance is among them."""
    names = [random_id() for _ in range(10_000)]
    digits = Counter("".join(names))

    assert len(set(names)) == len(names)
    assert {len(name) for name in names} == {LENGTH}
    assert set(digits) == set(string.digits + string.ascii_lowercase)
    # 200,000 digits: a tenth is more than seven standard deviations from the 5,556 expected of each.
    assert all(abs(count - 200_000 / 36) < 556 for count in digits.values())
