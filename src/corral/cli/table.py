"""
Tables that fit the terminal.

A column that is too wide for the terminal is shortened; when that is not enough, columns are left out, the least
important first. Without a terminal nothing is shortened or left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from corral.cli.output import clean, styled_text

GAP: Final = 2
"""Blanks between two columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a column behaves when the terminal is narrow."""

    name: str
    shrinks_to: int | None = None
    """The least width to which its cells may be shortened; None leaves them whole."""
    rank: int = 0
    """Columns with the highest rank are left out first; 0 never."""
    is_status: bool = False


def table_lines(columns: Sequence[Layout], rows: Sequence[Sequence[str]], width: int | None) -> list[Text]:
    """The heading and *rows*, each on a line of at most *width* cells; None for any width, without styles."""
    cells = [[clean(cell) for cell in row] for row in rows]
    natural = [max(map(cell_len, [column.name, *(row[at] for row in cells)])) for at, column in enumerate(columns)]
    shown = list(range(len(columns))) if width is None else _fitting(columns, natural, width)
    widths = natural if width is None else _shrunk(columns, natural, shown, width)
    heading = [column.name.upper() for column in columns]
    lines = [_line([Text(heading[at], style="bold") for at in shown], [widths[at] for at in shown])]
    for row in cells:
        texts = [styled_text(row[at]) if columns[at].is_status else Text(row[at]) for at in shown]
        lines.append(_line(texts, [widths[at] for at in shown]))
    return lines


def _fitting(columns: Sequence[Layout], natural: Sequence[int], width: int) -> list[int]:
    """The columns that fit when each is as narrow as it may be."""
    least = [
        wide if column.shrinks_to is None else min(wide, column.shrinks_to)
        for column, wide in zip(columns, natural, strict=True)
    ]
    shown = list(range(len(columns)))
    while _total([least[at] for at in shown]) > width:
        dropped = max(shown, key=lambda at: columns[at].rank)
        if columns[dropped].rank == 0:
            break
        shown.remove(dropped)
    return shown


def _shrunk(columns: Sequence[Layout], natural: Sequence[int], shown: Sequence[int], width: int) -> list[int]:
    """The widths of all columns; of those that may be shortened, the widest is shortened first."""
    widths = list(natural)
    while _total([widths[at] for at in shown]) > width:
        limits = {at: columns[at].shrinks_to for at in shown}
        elastic = [at for at, least in limits.items() if least is not None and widths[at] > least]
        if not elastic:
            break
        widths[max(elastic, key=lambda at: widths[at])] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _line(texts: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text(no_wrap=True)
    for text, width in zip(texts, widths, strict=True):
        if line.plain:
            line.append(" " * GAP)
        cell = text.plain
        if cell_len(cell) > width:
            cell = set_cell_size(cell, width - 1) + "…"
        line.append(set_cell_size(cell, width), style=text.style)
    line.rstrip()
    return line


def print_fitted(
    columns: Sequence[Layout], rows: Sequence[Sequence[object]], *, stderr: bool = False, fit: bool = True
) -> None:
    """
    Print *rows* under *columns*, on a terminal as wide as it is.

    Without *fit*, as for columns that were asked for by name, lines that are too long continue on the next.
    """
    console = Console(highlight=False, stderr=stderr)
    width = console.width if console.is_terminal and fit else None
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    for line in table_lines(columns, texts, width):
        if console.is_terminal:
            console.print(line, soft_wrap=True)
        else:
            print(line.plain, file=console.file)
