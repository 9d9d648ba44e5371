"""
The client: a program of its own that asks one thing over many connections.

`load.py PORT METHOD PATH CONNECTIONS SECONDS [BODY]`.

It parses no more of an answer than its status and its length, so that the server is what is measured. Prints JSON: how
many were answered, in how many seconds, and the CPU seconds it took itself.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

import uvloop


class Asker(asyncio.Protocol):
    """One connection: sends a request, reads the whole response, and repeats until it is stopped."""

    def __init__(self, request: bytes, stopped: asyncio.Event) -> None:
        self.answered = 0
        self.gone = asyncio.get_running_loop().create_future()
        self._request = request
        self._stopped = stopped
        self._read = b""
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask the first time."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Read on; at the end of an answer, ask again."""
        if self._missing:
            self._missing -= len(data)
        else:
            self._read += data
            head, end, body = self._read.partition(b"\r\n\r\n")
            if not end:
                return
            self._missing = _length(head) - len(body)
            self._read = b""
        if self._missing == 0:
            self.answered += 1
            if self._stopped.is_set():
                self._transport.close()
            else:
                self._transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note a hang-up: before the end it is an error."""
        if exc is not None or not self._stopped.is_set():
            self.gone.set_exception(exc or ConnectionError("the server hung up"))
        else:
            self.gone.set_result(None)


def _length(head: bytes) -> int:
    if not head.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 201 ")):
        raise ValueError(f"not an answer to be counted: {head[:60]!r}")
    return int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])


def request_of(port: str, method: str, path: str, body: str = "") -> bytes:
    """The request as it goes over the wire."""
    more = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n" if body else ""
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: application/json\r\n{more}\r\n"
    return (head + body).encode()


async def main(port: int, request: bytes, connections: int, seconds: float) -> None:
    """Ask for *seconds*, and print the outcome."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.set_exception_handler(_end_on_error)
    askers = []
    began, cpu_began = time.perf_counter(), time.process_time()
    for _ in range(connections):
        _, asker = await loop.create_connection(lambda: Asker(request, stopped), "127.0.0.1", port)
        askers.append(asker)
    loop.call_later(seconds, stopped.set)
    await asyncio.gather(*(asker.gone for asker in askers))
    took, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    print(json.dumps({"answers": sum(asker.answered for asker in askers), "seconds": took, "cpu": cpu}))


def _end_on_error(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    sys.exit(f"load: {context.get('exception') or context['message']}")


if __name__ == "__main__":
    port, method, path, connections, seconds, *body = sys.argv[1:]
    uvloop.run(main(int(port), request_of(port, method, path, *body), int(connections), float(seconds)))
