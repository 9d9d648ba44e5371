"""Logs as text: nothing that a terminal obeys gets through, and the way the bytes arrive changes nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.machine.log_text import LONGEST_LINE, LogText

PIECES = st.sampled_from(
    [
        *(b"\x1b", b"\x1b[31m", b"\x1b[", b"[", b"m", b"\x1b]0;title", b"\x07", b"\x1b\\", b"\x9b", b"\xc2\x9b1A"),
        *(b"\r", b"\n", b"\r\n", b"\t", b"\x00", b"\x7f", b"text", "größe".encode(), b"\xf0\x9f", b"\x98\x80", b"\xff"),
        *(b"a" * LONGEST_LINE, b"\xff" * 6000, "é".encode() * 9000, "x😀".encode() * 4000),
    ]
)
LOGS = st.lists(st.binary(max_size=40) | PIECES, max_size=30)
SAFE = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f]*")


def cleaned(pieces: list[bytes]) -> bytes:
    text = LogText()
    return b"".join([*(text.add(piece) for piece in pieces), text.end()])


@given(LOGS)
def test_only_printable_text_tabs_and_line_feeds_remain(pieces: list[bytes]) -> None:
    """In lines of a bounded length, as valid UTF-8."""
    found = cleaned(pieces)

    assert SAFE.fullmatch(found.decode("utf-8", "strict"))
    assert all(len(line) <= LONGEST_LINE for line in found.split(b"\n"))
    assert found == b"" or found.endswith(b"\n")


@given(LOGS, st.integers(1, 9))
def test_the_result_does_not_depend_on_how_the_bytes_arrive(pieces: list[bytes], size: int) -> None:
    """A character, an escape or a line end may be split anywhere."""
    whole = b"".join(pieces)
    small = [whole[at : at + size] for at in range(0, len(whole), size)]

    assert cleaned(pieces) == cleaned([whole]) == cleaned(small)


@given(st.lists(st.text("abc äöü\t😀", max_size=60), max_size=20))
def test_ordinary_text_is_unchanged(lines: list[str]) -> None:
    """Tabs and any language included."""
    text = "".join(f"{line}\n" for line in lines)
    assert cleaned([text.encode()]).decode() == text


@given(LOGS)
def test_little_is_held(pieces: list[bytes]) -> None:
    """No more than one line, however long the log is."""
    text = LogText()
    for piece in pieces:
        text.add(piece)
        assert len(text._rest) <= LONGEST_LINE  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m\n", b"red\n"),
        (b"\x1b]0;evil\x07title\n", b"title\n"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", b"link\n"),
        (b"\xc2\x9b31mred\n", b"red\n"),
        (b"\x1bc\x1b(Breset\n", b"reset\n"),
        (b"bell\x07 back\x08 nul\x00 del\x7f\n", b"bell back nul del\n"),
        (b"10%\r50%\r100%\r\nend", b"10%\n50%\n100%\nend\n"),
        (b"\x1b]52;c;never ended\nnext\n", b"52;c;never ended\nnext\n"),
        (b"bad \xff\xfe utf\n", "bad �� utf\n".encode()),
        (b"\n\n", b"\n\n"),
        (b"", b""),
    ],
)
def test_escapes_are_removed_whole(log: bytes, shown: bytes) -> None:
    """A colour leaves no remains; an escape that never ends takes no text with it."""
    assert cleaned([log]) == shown
