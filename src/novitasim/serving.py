"""A simulator that listens: builds it from its options, opens its ports, closes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from novitasim import control, server, settings
from novitasim.clock import Clock, RunningClock, SteppedClock
from novitasim.guests import Guests
from novitasim.journal import Journal
from novitasim.simulator import Simulator
from novitasim.world import World

# Bodies of the provider's calls are small; a template's readme is the largest part (100 KiB).
_MOST_BODY_BYTES = 4 * 1024 * 1024


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
    # What this start asks for counts more than what an earlier run was told.
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
    simulator = build(options)
    guests = Guests(simulator)
    app = web.Application(client_max_size=_MOST_BODY_BYTES)
    server.add_routes(app, simulator)
    control.add_routes(app, simulator)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    try:
        await guests.start()
        simulator.endpoints = guests
        await runner.setup()
        site = web.TCPSite(runner, options.host, options.port)
        await site.start()
        port = int(runner.addresses[0][1])
        yield Listening(simulator, f"http://{options.host}:{port}")
    finally:
        await runner.cleanup()
        await guests.stop()
        simulator.close()
