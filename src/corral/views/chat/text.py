"""Texts of users and of the provider, made harmless for chats, and cut to the lengths that these accept."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

NOTHING: Final = "-"
"""In place of an empty text, which both chats refuse."""
BREAK: Final = "\u200b"
"""
A space without width: after `@` it ends what could be a mention, and inside `://` or a domain what could be a link.
"""
_DOMAIN_DOT: Final = re.compile(r"(?<=\w)\.(?=[^\W\d])")
"""A dot as in `www.example.com`, which some clients make a link without `://`; none of a number or of a sentence."""
ELLIPSIS: Final = "…"
MOST_READ: Final = 8000
"""Characters of a text that are looked at; no chat accepts as many, and the provider's messages have no limit."""
_DROPPED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that are not shown, or change how others are: controls, directions, unassigned ones."""


def plain(text: str) -> str:
    """*text* as one line of visible characters, in which nothing is a mention or a link; never empty."""
    read = text[:MOST_READ]
    shown = "".join(" " if unicodedata.category(char) in _DROPPED or char.isspace() else char for char in read)
    words = _DOMAIN_DOT.sub(f".{BREAK}", " ".join(shown.split()))
    return words.replace("@", f"@{BREAK}").replace("://", f":{BREAK}//") or NOTHING


def fitted(text: str, most: int, escape: Callable[[str], str] = str) -> str:
    """
    *text* with each character replaced by *escape*, cut to *most* units of UTF-16, which is how chats count at most.

    An escaped character is not cut in two, and a text that is cut ends with an ellipsis.
    """
    pieces = [escape(char) for char in text]
    lengths = [units(piece) for piece in pieces]
    if sum(lengths) <= most:
        return "".join(pieces)
    left, count = most - units(ELLIPSIS), 0
    while lengths[count] <= left:
        left -= lengths[count]
        count += 1
    return "".join(pieces[:count]) + ELLIPSIS


def units(text: str) -> int:
    """The length of *text* in units of UTF-16."""
    return len(text) + sum(char > "\uffff" for char in text)


def replacing(table: Mapping[str, str]) -> Callable[[str], str]:
    """An escape that replaces the characters in *table*."""
    return lambda char: table.get(char, char)
