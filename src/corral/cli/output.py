"""
How commands speak: results on standard output, everything else on standard error.

Colours, live lines and shortened times are for a terminal only; a pipe gets whole words and no escape codes. What came
from elsewhere (names, provider messages) is shown without control characters, so that it cannot move the cursor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

_STYLES: Final = {
    **dict.fromkeys(["ready", "healthy", "completed", "ok"], "green"),
    **dict.fromkeys(["failed", "unhealthy"], "bold red"),
    **dict.fromkeys(["terminated", "exited", "skipped"], "dim"),
}
_MOVING: Final = "yellow"
T = TypeVar("T")
_AGES: Final = ((86400, "d"), (3600, "h"), (60, "m"))
_SECOND_STEPS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def clean(value: object) -> str:
    """*value* on one line, without anything that a terminal would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in str(value))


def clean_lines(text: str) -> str:
    """*text* with its line breaks, without anything else that a terminal would obey."""
    return "\n".join(map(clean, text.split("\n")))


def print_json(value: object) -> None:
    """*value* as JSON, indented; what a terminal would obey is escaped."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    sys.stdout.write("".join(one if one.isprintable() or one == "\n" else _json_escape(one) for one in text) + "\n")
    sys.stdout.flush()


def print_line(text: str) -> None:
    """One line of a result."""
    print(clean(text), flush=True)


def print_note(text: str) -> None:
    """Something a person should know that is not the result."""
    print(clean_lines(text), file=sys.stderr, flush=True)


def _json_escape(letter: str) -> str:
    """*letter*, which can only be inside a string, as JSON writes it in ASCII."""
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, styled: str = "") -> None:
    """*rows* under *columns*; cells of the column named *styled* are coloured by what they say."""
    cells = [["" if cell is None else clean(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        widths = [max(len(row[i]) for row in [list(columns), *cells]) for i in range(len(columns))]
        for row in [[column.upper() for column in columns], *cells]:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        table.add_row(*(styled_text(c) if n == styled else Text(c) for n, c in zip(columns, row, strict=True)))
    Console().print(table)


def print_found(
    found: Sequence[T], columns: Sequence[str], row: Callable[[T], Sequence[object]], *, json: bool, styled: str = ""
) -> None:
    """*found* as JSON, or as a table with a *row* each."""
    if json:
        print_json(found)
    else:
        print_table(columns, map(row, found), styled=styled)


def styled_text(word: str) -> Text:
    """A status in the colour of what it means."""
    return Text(word, style=_STYLES.get(word, _MOVING))


def price(usd: float | None) -> str:
    """USD per hour."""
    return "-" if usd is None else f"${usd:.4f}".rstrip("0").ljust(5, "0") + "/h"


def rate(usd: float | None) -> str:
    """USD per hour, to the cent."""
    return "-" if usd is None else f"${usd:,.2f}/h"


def age(passed: timedelta) -> str:
    """How long ago, in the largest unit of which there are two, such as 90m or 3d."""
    seconds = max(0, int(passed.total_seconds()))
    return next((f"{seconds // size}{unit}" for size, unit in _AGES if seconds >= 2 * size), f"{seconds}s")


def clock_time(at: datetime | None) -> str:
    """A moment in the time zone of this machine, which is named."""
    return "-" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def expected(at: datetime, now: datetime) -> str:
    """When something will be ready that is usually ready *at* that time."""
    return f"ready at about {clock_time(at)}" if at > now else f"takes longer than usual: expected at {clock_time(at)}"


def span(seconds: float) -> str:
    """About how long, in one unit or two."""
    left, parts = max(0, round(seconds)), list[str]()
    for size, unit in _SECOND_STEPS:
        if left >= size and len(parts) < 2:  # noqa: PLR2004
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts) or "0 s"
