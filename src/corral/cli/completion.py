"""Completion in bash, which splits words at colons and equals signs before it asks for completions."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final

_SPLITS: Final = frozenset(":=")
"""The characters of COMP_WORDBREAKS that occur in an address or an option."""


def rejoin_words(environ: MutableMapping[str, str]) -> None:
    """Rejoin what bash split, so that `--url http://127.0.0.1:3000` is an option and its value again."""
    words = environ.get("COMP_WORDS", "").split("\n")
    current = environ.get("COMP_CWORD", "")
    if len(words) < 2 or not current.isdecimal():  # noqa: PLR2004
        return
    joined, place, glue = list[str](), 0, False
    for number, word in enumerate(words):
        is_split = bool(word) and set(word) <= _SPLITS
        if joined and (glue or is_split):
            joined[-1] += word
        else:
            joined.append(word)
        glue = is_split
        if number == int(current):
            place = len(joined) - 1
    environ["COMP_WORDS"], environ["COMP_CWORD"] = "\n".join(joined), str(place)
