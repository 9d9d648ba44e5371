"""The files of the migrations."""

from __future__ import annotations

from importlib.resources import files


def test_the_numbers_of_migrations_are_in_order_and_none_is_taken_twice() -> None:
    """Of two with one number, a database that has applied the first never gets the second."""
    names = sorted(file.name for file in files("corral.store.migrations").iterdir() if file.name.endswith(".sql"))

    assert [int(name.partition("_")[0]) for name in names] == [*range(1, len(names) + 1)]
