"""A simulator that listens: builds it from its options, opens its ports, closes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from novitasim import settings
from novitasim.server import control, server
from novitasim.server.clock import Clock, RunningClock, SteppedClock, pause
from novitasim.server.simulator import Simulator
from novitasim.workloads.workloads import Workloads
from novitasim.world.journal import Journal, JournalError, Lock
from novitasim.world.world import World

# Bodies of the provider's calls are small; a template's readme is the largest part (100 KiB).
_MOST_BODY_BYTES = 4 * 1024 * 1024

# Twice as long as a simulator needs to notice that its parent has ended, and to end.
_LOCK_TRIES, _LOCK_WAIT_SECONDS = 40, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run a simulator."""

    host: str = "127.0.0.1"
    port: int = 0
    state: Path | None = None
    clock: str = "real"
    speed: float = 1.0
    seed: int = 1
    keys: frozenset[str] = frozenset()
    quirks: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listening:
    """A simulator and the address it listens on."""

    simulator: Simulator
    root_url: str


def build(options: Options) -> Simulator:
    """The simulator, its world read back from the state file if there is one; raises SettingError, JournalError."""
    world = World(seed=options.seed)
    known_until = Journal(options.state).load(world) if options.state else 0.0
    # Options of this start override settings that an earlier run stored.
    world.settings = settings.changed(world.settings, options.quirks)
    clock: Clock = SteppedClock(start=known_until or None)
    if options.clock == "real":
        clock = RunningClock(speed=options.speed, start=known_until)
    simulator = Simulator(world, clock, keys=options.keys)
    if options.state:
        simulator.keep_in(options.state)
    return simulator


@asynccontextmanager
async def listen(options: Options) -> AsyncGenerator[Listening]:
    """Serve until the block ends."""
    async with AsyncExitStack() as closing:
        if options.state:
            closing.callback((await _locked(options.state)).release)
        simulator = build(options)
        closing.callback(simulator.close)
        workloads = Workloads(simulator)
        closing.push_async_callback(workloads.stop)
        await workloads.start()
        simulator.endpoints = workloads
        app = web.Application(client_max_size=_MOST_BODY_BYTES)
        server.add_routes(app, simulator)
        control.add_routes(app, simulator)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        closing.push_async_callback(runner.cleanup)
        await runner.setup()
        await web.TCPSite(runner, options.host, options.port).start()
        yield Listening(simulator, f"http://{options.host}:{int(runner.addresses[0][1])}")


async def _locked(state: Path) -> Lock:
    """An exclusive lock on the state file; waits for a predecessor that is just ending."""
    lock = Lock(state)
    for _ in range(_LOCK_TRIES):
        if lock.take():
            return lock
        await pause(_LOCK_WAIT_SECONDS)
    raise JournalError(f"{state} is in use by another simulator")
