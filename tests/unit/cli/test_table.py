"""Tables that fit the terminal."""

from __future__ import annotations

import pytest

from corral.cli.commands.listing import COLUMNS as INSTANCE_COLUMNS
from corral.cli.commands.listing import DEFAULT_COLUMNS
from corral.cli.table import Layout, table_lines

COLUMNS = (
    Layout(name="name", shrinks_to=10),
    Layout(name="status", is_status=True),
    Layout(name="gpu", shrinks_to=10, rank=2),
    Layout(name="region", rank=3),
    Layout(name="price", rank=1),
    Layout(name="age"),
)
ROWS = [
    ["training-of-the-large-model", "health_checking", "8x RTX 4090 24GB", "AS-SGP-02", "$1.44/h", "12d"],
    ["web", "ready", "RTX 5090 32GB", "CN-HK-01", "$0.50/h", "3h"],
]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (120, ["NAME", "STATUS", "GPU", "REGION", "PRICE", "AGE"]),
        (80, ["NAME", "STATUS", "GPU", "REGION", "PRICE", "AGE"]),
        (60, ["NAME", "STATUS", "GPU", "PRICE", "AGE"]),
        (40, ["NAME", "STATUS", "AGE"]),
        (20, ["NAME", "STATUS", "AGE"]),
    ],
)
def test_the_least_important_columns_are_left_out_first(width: int, columns: list[str]) -> None:
    """What is left is shortened; name, status and age always stay."""
    heading, *rows = [line.plain for line in table_lines(COLUMNS, ROWS, width)]

    assert heading.split() == columns
    if width >= 40:
        assert max(len(line) for line in (heading, *rows)) <= width


def test_long_names_are_shortened_visibly_and_numbers_never() -> None:
    """A shortened price would be a wrong one."""
    lines = [line.plain for line in table_lines(COLUMNS, ROWS, 60)]

    assert lines[1].startswith("training-of-…  health_checking  8x RTX 4090")
    assert "$1.44/h  12d" in lines[1]


def test_without_a_terminal_everything_is_there() -> None:
    """A pipe has no width."""
    lines = [line.plain for line in table_lines(COLUMNS, ROWS, None)]

    assert lines[1].split() == " ".join(ROWS[0]).split()


def test_what_came_from_elsewhere_cannot_steer_the_terminal() -> None:
    """Names of products and regions come from the provider."""
    (_, row) = table_lines([Layout(name="gpu")], [["RTX\x1b[2J\r4090"]], 80)

    assert row.plain == "RTX [2J 4090"


def test_when_an_instance_ends_is_never_shortened() -> None:
    """On 80 columns the region is left out instead: a time that is cut says nothing."""
    names = [*DEFAULT_COLUMNS, "ends"]
    row = ["large-model", "ready", "RTX 4090 24GB", "CN-HK-01", "$0.35/h", "12m", "in 7 h 59 min: max duration"]
    heading, line = (each.plain for each in table_lines([INSTANCE_COLUMNS[name].layout for name in names], [row], 80))

    assert heading.split() == ["NAME", "STATUS", "GPU", "PRICE", "AGE", "ENDS"]
    assert line.endswith("in 7 h 59 min: max duration")
    assert len(line) <= 80
