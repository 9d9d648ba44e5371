"""A command on a terminal: what it shows, and what is typed."""

from __future__ import annotations

import asyncio
import os
import re
import termios
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.clock.waiting import until
from support.processes.forked import ForkedProcess, fork
from support.processes.process import CORRAL, clean_environment

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


@dataclass(kw_only=True)
class Terminal:
    """A running command, the bytes that it wrote so far, and its keyboard."""

    process: ForkedProcess
    keyboard: int
    written: bytearray = field(default_factory=bytearray)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once no process has the terminal open any more and all that was written is read."""

    @property
    def raw(self) -> str:
        """All that was written, with what moves the cursor and sets colours."""
        return self.written.decode(errors="replace")

    @property
    def text(self) -> str:
        """All that was written, without what moves the cursor and sets colours."""
        return _CONTROL.sub("", self.raw)

    async def shows(self, text: str) -> None:
        """Wait until *text* was written."""
        await until(lambda: text in self.text, what=f"{text!r} on the terminal")

    def type(self, keys: str) -> None:
        os.write(self.keyboard, keys.encode())

    async def end(self) -> int:
        """Wait for its end, and for all that it wrote; returns the exit code."""
        code = await self.process.wait()
        await self.closed.wait()
        return code

    def read(self) -> None:
        """Take what was written; called when there is something."""
        try:
            piece = os.read(self.keyboard, 65536)
        except OSError:  # Linux reports the end so
            piece = b""
        self.written.extend(piece)
        if not piece:
            asyncio.get_running_loop().remove_reader(self.keyboard)
            self.closed.set()


@asynccontextmanager
async def on_terminal(
    *arguments: str, columns: int = 160, rows: int = 40, environ: Mapping[str, str] | None = None
) -> AsyncGenerator[Terminal]:
    """`corral` with *arguments* on a terminal of this size; it is ended with the block."""
    near, far = os.openpty()
    termios.tcsetwinsize(far, (rows, columns))
    loop = asyncio.get_running_loop()
    process = await fork(
        [str(CORRAL), *arguments],
        cwd=Path.cwd(),
        environ=clean_environment(TERM="xterm-256color", **(environ or {})),
        stdin=far,
        stdout=far,
        stderr=far,
        new_session=True,
    )
    os.close(far)
    terminal = Terminal(process=process, keyboard=near)
    loop.add_reader(near, terminal.read)
    try:
        yield terminal
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        loop.remove_reader(near)
        os.close(near)
    assert "Traceback" not in terminal.text
