"""The installation under attack: PostgreSQL, the simulator, receivers, and service processes behind proxies."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from corral.base.clock import SystemClock
from corral.store.server.cluster_location import locate
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.target import DatabaseTarget
from support.chaos.process import Process
from support.chaos.proxy import Proxy
from support.chaos.receivers import Receiver
from support.http.servers import unused_port
from support.processes.process import clean_environment

APIS, WORKERS = 2, 3
CLOCK = SystemClock()
QUIRKS = ("start_seconds=0.5-1", "stop_seconds=0.5-1", "restart_seconds=0.5-1", "remove_seconds=0.5-1")


async def until(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Wait until *condition* holds; raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await CLOCK.sleep(0.5)


class Installation:
    """Everything that runs, and how to reach it."""

    def __init__(self, place: Path, seed: int, receiver: Receiver) -> None:
        self.place, self.seed, self.receiver = place, seed, receiver
        self.server = EmbeddedServer(place / "data", CLOCK)
        self.target = DatabaseTarget()
        self.processes: list[Process] = []
        self.simulator = ""

    @property
    def apis(self) -> list[Process]:
        return self.processes[:APIS]

    async def build(self, stack: AsyncExitStack) -> None:
        """Start everything, to be ended with *stack*."""
        self.target = await self.server.ensure()
        stack.push_async_callback(self.server.stop)
        await self._start_simulator(stack)
        await self.receiver.start(stack)
        for number, role in enumerate(["api"] * APIS + ["worker"] * WORKERS):
            self.processes.append(await self._process(f"{role}-{number}", role, stack))
            await self.processes[-1].start()
            stack.push_async_callback(self.processes[-1].end, signal.SIGTERM)

    async def _start_simulator(self, stack: AsyncExitStack) -> None:
        ready = self.place / "simulator.address"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "novitasim", "--port", "0", "--ready-file", str(ready), "--seed", str(self.seed),
            *(f"--quirk={quirk}" for quirk in QUIRKS),
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip

        async def end() -> None:
            process.terminate()
            await process.wait()

        async def is_up() -> bool:
            return ready.exists() and bool(ready.read_text())

        stack.push_async_callback(end)
        await until(is_up, 30)
        self.simulator = ready.read_text().strip()

    async def _process(self, name: str, role: str, stack: AsyncExitStack) -> Process:
        loop = asyncio.get_running_loop()
        socket = f"{self.target.host}/.s.PGSQL.5432"
        simulator = urlsplit(self.simulator)
        host, port = str(simulator.hostname), int(simulator.port or 0)
        database = Proxy(lambda make: loop.create_unix_connection(make, socket))
        provider = Proxy(lambda make: loop.create_connection(make, host, port))
        for proxy in (database, provider):
            await proxy.start()
            stack.push_async_callback(proxy.stop)
        process = Process(
            role=role,
            port=unused_port(),
            log=self.place / f"{name}.log",
            environment={},
            database=database,
            provider=provider,
        )
        process.environment = self._environment(process)
        return process

    def _environment(self, process: Process) -> dict[str, str]:
        database = f"127.0.0.1:{process.database.port}/{self.target.database}?sslmode=disable"
        return clean_environment(
            DATABASE_URL=f"postgresql://{self.target.user}@{database}",
            NOVITA_API_BASE_URL=f"http://127.0.0.1:{process.provider.port}/gpu-instance/openapi",
            NOVITA_API_KEY="key",
            NOVITA_RATE_LIMIT_PER_MINUTE="3000",
            CORRAL_WEBHOOK_ALLOW_PRIVATE="true",
            WEBHOOK_URL=self.receiver.url,
            WEBHOOK_SECRET="chaos-chaos",  # of a test
            LOG_LEVEL="info",
        )

    def use_database(self, name: str) -> None:
        """Let processes that start from now on use another database of the same server."""
        self.target = self.target.named(name)
        for process in self.processes:
            process.environment = self._environment(process)

    def database_url(self, name: str | None) -> str:
        """For commands beside the service, without a proxy."""
        return f"postgresql://{self.target.user}@/{name}?host={self.target.host}"

    async def sql(self, *statements: str, database: str = "postgres") -> object:
        """Run statements one by one, beside the service; returns the first value of the last."""
        connection = await asyncpg.connect(**self.target.named(database).arguments())
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetchval(statements[-1])
        finally:
            await connection.close()

    def postmaster(self) -> int:
        """The process id of the database server."""
        return int((locate(self.place / "data") / "postmaster.pid").read_text().splitlines()[0])

    async def supervise(self) -> list[str]:
        """Start again what ended by itself; returns what is wrong with that."""
        return [wrong for process in self.processes if (wrong := await process.supervise()) is not None]
