"""One `corral serve` under attack, with proxies of its own to the database and to the provider."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

from support.chaos.proxy import Proxy
from support.processes.process import CORRAL


@dataclass(kw_only=True)
class Process:
    """May be killed, frozen or cut off, and is started again when it ends."""

    role: str
    port: int
    log: Path
    environment: dict[str, str]
    database: Proxy
    provider: Proxy
    running: asyncio.subprocess.Process | None = None
    is_held: bool = False
    """Something else starts and ends it for the time being."""
    _log_start: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.running = await asyncio.create_subprocess_exec(
                str(CORRAL), "serve", "--role", self.role, "--port", str(self.port),
                cwd=self.log.parent, env=self.environment, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    async def supervise(self) -> str | None:
        """Start it again if it ended by itself; returns what is wrong if it had been up when it ended."""
        if self.is_held or self.running is None or self.running.returncode is None:
            return None
        code = self.running.returncode
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            said = log.read().decode(errors="replace")
        await self.start()
        # At its start it may end for want of a database; once it serves it must not.
        if " serves on " not in said:
            return None
        return f"{self.log.stem} ended by itself with {code}: {said.splitlines()[-1][:300]}"

    async def end(self, how: signal.Signals) -> None:
        if self.running is not None and self.running.returncode is None:
            self.running.send_signal(how)
            if how is signal.SIGTERM:
                self.running.send_signal(signal.SIGCONT)
            await self.running.wait()
