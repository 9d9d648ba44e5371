"""
Wherever bytes come in from outside: what cannot be read is refused in our own words, and nothing else comes of it.

The same functions that `make fuzz` drives for longer, and guided by the lines that are reached.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fuzz.mutation import changed
from support.fuzz.planted import PLANTED
from support.fuzz.target import SEEDS, Target
from support.fuzz.targets import TARGETS

EXAMPLES = 500

pytestmark = pytest.mark.usefixtures("quietly")


def drive(target: Target) -> None:
    """Read every seed, and what becomes of them by one to five changes."""
    for seed in target.seeds:
        target.read(seed)

    @settings(max_examples=EXAMPLES, database=None, report_multiple_bugs=False)
    @given(data=st.sampled_from(target.seeds), salt=st.integers(0, 2**32), changes=st.integers(1, 5))
    def check(data: bytes, salt: int, changes: int) -> None:
        dice = random.Random(salt)  # noqa: S311  # repeatable on purpose
        for _ in range(changes):
            data = changed(data, dice)
        target.read(data)

    check()


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_bytes_break_no_promise(name: str) -> None:
    """Only the documented errors, nothing that could not be kept, no long text and no secret in an error."""
    drive(TARGETS[name])


def test_a_planted_mistake_is_found() -> None:
    """A search that finds nothing proves something only if it can find."""
    with pytest.raises((ValueError, TypeError, OverflowError)):
        drive(PLANTED)


def test_every_target_has_seeds_and_every_seed_a_target() -> None:
    """A folder without a target would look like a test."""
    assert {place.name for place in SEEDS.iterdir()} == {*TARGETS, PLANTED.name}
    assert all(target.seeds for target in TARGETS.values())
