"""
The log of a workload as text that is safe to print.

Anything can be in a log: terminal escapes that rename a window or type a command, other control characters, bytes that
are not UTF-8, lines without end. `LogText` takes the bytes as they arrive, in any pieces, and returns whole lines.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST_LINE: Final = 16 * 1024
"""Bytes. Shorter cuts lines that programs do write, such as JSON records; longer costs that much memory a follower."""

_ESCAPE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x90\x98\x9b-\x9f]*(?:\x07|\x1b\\|\x9c)"  # titles, links
    r"|\x1b[ -/]*[0-~]"
)
"""No class contains what begins another escape, so that the time is linear in the length of a line."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_UNCLEAN: Final = re.compile(rb"[^\t\n\x20-\x7e]|[^\n]{%d}" % (LONGEST_LINE + 1))
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class LogText:
    """
    The text of one log. The result does not depend on how the bytes are split.

    A carriage return ends a line, so that each state of a progress bar is a line of its own. A line longer than
    `LONGEST_LINE` becomes several.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._after_return = False

    def add(self, data: bytes) -> bytes:
        """The lines that are complete with *data*, each with a line feed."""
        if self._after_return and data:
            data, self._after_return = data.removeprefix(b"\n"), False
        self._after_return = data.endswith(b"\r") or (self._after_return and not data)
        data = self._rest + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        whole, self._rest = data[:end], data[end:]
        if _UNCLEAN.search(whole) is not None:
            whole = b"".join(_lines(line) for line in _split(whole))
        return whole + self._overflow()

    def end(self) -> bytes:
        """What is left after the last piece."""
        rest, self._rest = self._rest, b""
        return _lines(rest) if rest else b""

    def _overflow(self) -> bytes:
        """The beginning of a line that is too long to wait for its end."""
        lines = list[bytes]()
        while len(self._rest) > LONGEST_LINE:
            first, self._rest = _cut(self._rest)
            lines.append(_clean(first))
        return b"".join(lines)


def _split(whole: bytes) -> list[bytes]:
    """The lines of *whole*, which ends with a line end."""
    return _LINE_END.split(whole)[:-1]


def _lines(line: bytes) -> bytes:
    """*line* as one or more clean lines."""
    pieces = list[bytes]()
    while len(line) > LONGEST_LINE:
        first, line = _cut(line)
        pieces.append(_clean(first))
    return b"".join([*pieces, _clean(line)])


def _cut(line: bytes) -> tuple[bytes, bytes]:
    """The first `LONGEST_LINE` bytes of *line* and the rest; not within a character."""
    at = LONGEST_LINE
    while at > LONGEST_LINE - 3 and line[at] & 0xC0 == 0x80:  # noqa: PLR2004  # a byte that continues a character
        at -= 1
    return line[:at], line[at:]


def _clean(line: bytes) -> bytes:
    """*line* without escapes and control characters, as UTF-8, with a line feed."""
    text = line.decode("utf-8", "replace")
    clean = _CONTROL.sub("", _ESCAPE.sub("", text)).encode()
    if len(clean) > LONGEST_LINE:  # each byte that is not UTF-8 became three
        clean = clean[:LONGEST_LINE].decode("utf-8", "ignore").encode()
    return clean + b"\n"
