"""Answers leave in as few writes as can be, and nothing of them is held back."""

from __future__ import annotations

import asyncio

from corral.api.writes import JoinedWrites


class Wire(asyncio.Transport):
    """Notes what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.sent.append(b"(closed)")

    def is_closing(self) -> bool:
        return self.sent[-1:] == [b"(closed)"]


async def turn() -> None:
    """Let the loop go round once."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_soon(done.set)
    await done.wait()


def opened() -> tuple[Wire, JoinedWrites]:
    wire = Wire()
    return wire, JoinedWrites(wire, asyncio.get_running_loop())


async def test_a_head_and_its_body_are_one_write() -> None:
    """Also the second answer on the same connection, in the same turn."""
    wire, writes = opened()
    for part in (b"head1 ", b"body1", b"head2 ", b"body2"):
        writes.write(part)

    assert wire.sent == [b"head1 body1", b"head2 body2"]


async def test_what_comes_alone_goes_at_the_next_turn() -> None:
    """The greeting of a stream may be all there is for a quarter of a minute."""
    wire, writes = opened()
    writes.write(b"alone")
    await turn()
    writes.write(b"later")
    await turn()

    assert wire.sent == [b"alone", b"later"]


async def test_what_is_left_is_sent_before_the_end() -> None:
    """An answer without a body on a connection that is closed."""
    wire, writes = opened()
    writes.write(b"last words")
    assert not writes.is_closing()
    writes.close()
    await turn()

    assert wire.sent == [b"last words", b"(closed)"]
    assert writes.is_closing()
