"""The migrations of this release."""

from __future__ import annotations

from corral.store.server.migrate import migrations


def test_every_migration_has_a_number_of_its_own() -> None:
    """A database knows them by number: of two with the same one, the second would never be applied."""
    numbers = [step.number for step in migrations()]

    assert numbers == list(range(1, len(numbers) + 1))
