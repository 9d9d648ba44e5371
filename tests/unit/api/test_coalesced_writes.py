"""Answers leave in as few writes as can be, and nothing of them is held back."""

from __future__ import annotations

import asyncio

import pytest
from support.clock.waiting import until

from corral.api.http.coalesced_writes import CoalescedWrites


class Wire(asyncio.Transport):
    """Notes what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.unsent = 0
        self.checks = 0
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        self.checks += 1
        return self.unsent

    def get_extra_info(self, name: str, default: object = None) -> object:
        assert name == "socket"
        return default

    def abort(self) -> None:
        self.aborted = True

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


def opened(*, unsent_within: float = 30.0) -> tuple[Wire, CoalescedWrites]:
    wire = Wire()
    return wire, CoalescedWrites(wire, asyncio.get_running_loop(), unsent_within=unsent_within)


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


async def test_a_closed_connection_is_aborted_when_the_client_takes_nothing() -> None:
    """Closing alone waits for the client without limit."""
    wire, writes = opened(unsent_within=0.01)
    wire.unsent = 100
    writes.close()

    await until(lambda: wire.aborted)


@pytest.mark.parametrize(("before", "after", "aborted"), [(100, 0, False), (100_000, 80_000, False), (100, 50, True)])
async def test_a_client_must_take_all_or_a_reasonable_piece(before: int, after: int, *, aborted: bool) -> None:
    """A slow line is no reason to be cut off; a byte now and then is."""
    wire, writes = opened(unsent_within=0.01)
    wire.unsent = before
    writes.watch()
    wire.unsent = after
    await until(lambda: wire.aborted or wire.checks > 1)

    assert wire.aborted is aborted
    writes.unwatch()


async def test_a_watch_ends_when_there_is_room_again() -> None:
    """What is buffered later starts a new one."""
    wire, writes = opened(unsent_within=0.01)
    wire.unsent = 100
    writes.watch()
    writes.unwatch()
    checks = wire.checks
    writes.watch()
    wire.unsent = 0
    await until(lambda: wire.checks > checks + 1)

    assert not wire.aborted


async def test_nothing_is_written_to_a_closed_connection() -> None:
    """Neither what comes later nor what was held back: the event loop raises, and its log fills with tracebacks."""
    wire, writes = opened()
    writes.write(b"held back")
    wire.close()
    await turn()
    for part in (b"head ", b"body", b"more"):
        writes.write(part)
    await turn()

    assert wire.sent == [b"(closed)"]
