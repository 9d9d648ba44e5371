"""For every test: the real PostgreSQL, one server a session and a fresh database a test, and a log of its own."""

from __future__ import annotations

import asyncio
import gc
import logging
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Generator
from itertools import count
from pathlib import Path
from types import FrameType

import pytest
import pytest_asyncio
import structlog
from hypothesis import settings as hypothesis_settings
from support.database import prepared
from support.database.fresh import TEMPLATE, execute, new_database
from support.suite.schedule import Test, scheduled

from corral.base.clock import SystemClock
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

hypothesis_settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis_settings.register_profile("check", derandomize=True, deadline=None, print_blob=True, max_examples=20)
hypothesis_settings.register_profile("nightly", max_examples=5000, deadline=None, print_blob=True)
hypothesis_settings.load_profile("ci")

_FOLDERS = count(1)


def pytest_configure() -> None:
    """
    Let Ctrl-C reach the commands that tests start: a shell that runs this in the background has it ignored.

    With Python's own handler, `asyncio.Runner` sets another for each test and fixture, and that takes a tenth of the
    CPU of a test that serves the API: `signal` formats the finished task with its result to see that it is no constant.
    """
    if signal.getsignal(signal.SIGINT) in {signal.SIG_IGN, signal.default_int_handler}:
        signal.signal(signal.SIGINT, _interrupt)
    gc.disable()  # until all tests are collected: what they consist of stays, and a third of the time is saved


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.hookimpl(trylast=True)  # after pytest-randomly has shuffled the tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests in the order that keeps all workers busy to the end."""
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = [items[place] for place in scheduled([Test(item.nodeid, _limit(item)) for item in items], workers)]


def pytest_collection_finish() -> None:
    """
    Collect garbage less often, and not among what was imported and collected: that is work in every test.

    With the usual threshold of 700 objects it happens hundreds of times while a test builds its application.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def _limit(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None else 0.0


@pytest.fixture(autouse=True)
def _own_log() -> Generator[None]:
    """
    Reset the log of the process before and after each test, so that no test depends on the ones before it.

    Tracebacks are plain: structlog's default draws them with rich, which takes a third of a second each.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    structlog.reset_defaults()
    *before, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*before, renderer])
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def quietly(_own_log: None) -> None:
    """For tests with thousands of kills and refusals, which would each log a line."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@pytest.fixture(scope="session")
def session_dir() -> Generator[Path]:
    """
    A directory with a short path that other accounts may pass through, as a data directory needs it.

    In memory where there is plenty: a new database is some 300 small files, and a disk shared by three workers takes
    a tenth of a second or more to copy them, for each test.
    """
    path = Path(tempfile.mkdtemp(prefix="corral-test-", dir=prepared.memory()))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def short_dir(session_dir: Path) -> Path:
    """A new folder in *session_dir*; a worker that returns to a file gets another one."""
    path = session_dir / str(next(_FOLDERS))
    path.mkdir()
    path.chmod(0o711)
    return path


@pytest.fixture(scope="session")
def server(session_dir: Path) -> Generator[DatabaseTarget]:
    """The PostgreSQL server of this session; not synced to disk, because nothing outlives the session."""
    prepared.prepare(session_dir / "data")
    embedded = EmbeddedServer(session_dir / "data", SystemClock(), options=prepared.UNSYNCED)

    async def start() -> DatabaseTarget:
        target = await embedded.ensure()
        others = target.named("template1")
        await execute(others, f"ALTER DATABASE postgres RENAME TO {TEMPLATE}")  # it is migrated
        await execute(others, "CREATE DATABASE postgres TEMPLATE template0 STRATEGY file_copy")
        return target

    yield asyncio.run(start())
    asyncio.run(embedded.stop())


@pytest.fixture
async def target(server: DatabaseTarget) -> AsyncGenerator[DatabaseTarget]:
    """A migrated database of the test's own."""
    async with new_database(server) as target:
        yield target


@pytest.fixture
async def database(target: DatabaseTarget) -> AsyncGenerator[Database]:
    """A pool on a migrated database of the test's own."""
    database = await Database.connect(target, most_connections=12)
    yield database
    await database.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_database(server: DatabaseTarget) -> AsyncGenerator[Database]:
    """A pool on a migrated database that the tests of a module share, for those that write nothing."""
    async with new_database(server) as target:
        database = await Database.connect(target, most_connections=12)
        yield database
        await database.close()
