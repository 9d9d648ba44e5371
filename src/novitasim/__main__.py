"""The command `novitasim`: run the simulator until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import stat
import sys
from pathlib import Path

from novitasim import settings
from novitasim.server.clock import pause
from novitasim.server.serving import Options, listen
from novitasim.settings import SettingError
from novitasim.world.journal import JournalError

_CHECK_SECONDS = 0.5  # how soon the end of the parent is noticed


def main(argv: list[str] | None = None) -> None:
    """Run; a bad option or state file is exit code 2 with one sentence."""
    arguments = _parser().parse_args(argv)
    try:
        asyncio.run(_run(arguments, _options(arguments)))
    except (SettingError, JournalError, OSError) as error:
        sys.exit(_complain(str(error)))
    except KeyboardInterrupt:
        pass


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="novitasim", description="A simulated novita.ai, for clients to be tried on.")
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    add("--port", type=int, default=8790, help="port to listen on; 0 takes a free one (8790)")
    add("--state", type=Path, help="file that keeps the world across restarts (default: none, the world is lost)")
    add("--clock", choices=("real", "stepped"), default="real", help="stepped stands still until POST /_sim/advance")
    add("--speed", type=float, default=1.0, help="how much faster than real time the real clock runs (1)")
    add("--boot-seconds", help="toCreate and creating together: seconds or a range such as 1-3 (0.5-1)")
    add("--pull-seconds", help="pulling: seconds or a range (0.5-2)")
    add("--key", action="append", default=[], help="an accepted API key; repeatable (default: any)")
    add("--quirk", action="append", default=[], metavar="NAME=VALUE", help="a setting; repeatable; see --settings")
    add("--seed", type=int, default=1, help="what all chance derives from (1)")
    add("--ready-file", type=Path, help="file that gets the URL when the simulator listens")
    add("--ready-fd", type=int, help="file descriptor that gets the URL when the simulator listens")
    add(
        "--exit-with-parent", action="store_true", help="end when the parent process does, or when a piped stdin closes"
    )
    add("--settings", action="store_true", help="print every setting and exit")
    return parser


def _options(arguments: argparse.Namespace) -> Options:
    if arguments.settings:
        for name, (accepts, means, default) in settings.fields().items():
            sys.stdout.write(f"{name} = {settings.shown(default)}\n    {means} ({accepts.words})\n")
        sys.exit(0)
    if arguments.speed <= 0:
        raise SettingError(f"--speed cannot be {arguments.speed:g}; accepted: a number above 0")
    quirks = settings.parse(arguments.quirk)
    for name in ("boot_seconds", "pull_seconds"):
        if getattr(arguments, name) is not None:
            quirks[name] = getattr(arguments, name)
    return Options(
        host=arguments.host,
        port=arguments.port,
        state=arguments.state,
        clock=arguments.clock,
        speed=arguments.speed,
        seed=arguments.seed,
        keys=frozenset(arguments.key),
        quirks=quirks,
    )


async def _run(arguments: argparse.Namespace, options: Options) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, ended.set)
    async with listen(options) as listening:
        watch = None
        if arguments.exit_with_parent:
            _watch_stdin(loop, ended)
            watch = loop.create_task(_watch_parent(os.getppid(), ended))
        _announce(arguments, listening.root_url)
        await ended.wait()
        if watch is not None:
            watch.cancel()


async def _watch_parent(parent: int, ended: asyncio.Event) -> None:
    while os.getppid() == parent:
        await pause(_CHECK_SECONDS)
    ended.set()


def _watch_stdin(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """End when a piped stdin closes, because the parent has ended; a terminal or file is ignored."""
    stdin = 0
    if not stat.S_ISFIFO(os.fstat(stdin).st_mode):
        return

    def check() -> None:
        if not os.read(stdin, 4096):
            loop.remove_reader(stdin)
            ended.set()

    loop.add_reader(stdin, check)


def _announce(arguments: argparse.Namespace, url: str) -> None:
    if arguments.ready_file:
        # Renamed into place, so that a reader that waits for the file never reads half a line.
        fresh = arguments.ready_file.with_name(f"{arguments.ready_file.name}.new")
        fresh.write_text(f"{url}\n")
        fresh.replace(arguments.ready_file)
    if arguments.ready_fd is not None:
        with os.fdopen(arguments.ready_fd, "w") as ready:
            ready.write(f"{url}\n")
    sys.stdout.write(f"novitasim listening on {url}\n")
    sys.stdout.flush()


def _complain(message: str) -> int:
    sys.stderr.write(f"novitasim: {message}\n")
    return 2


if __name__ == "__main__":
    main()
