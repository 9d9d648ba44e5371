"""One place where outside bytes come in."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SEEDS: Final = Path(__file__).parent / "seeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A function that reads bytes as one part of Corral does, and raises when that breaks a promise."""

    name: str
    read: Callable[[bytes], None]

    @property
    def seeds(self) -> list[bytes]:
        """Realistic inputs, and those that once broke something."""
        return [file.read_bytes() for file in sorted((SEEDS / self.name).iterdir())]


def headed(data: bytes, default: str) -> tuple[list[str], bytes]:
    """The words of the first line, which say how the rest comes; and the rest."""
    head, _, body = data.partition(b"\n")
    words = head.decode("latin-1").split(" ")
    return [words[0] or default, *words[1:]], body


def status_in(word: str, default: int = 200) -> int:
    """The HTTP status that *word* is; *default* if it is none."""
    return int(word) if re.fullmatch("[1-9][0-9][0-9]", word) else default
