"""File descriptors: how many there are, and how many are for callers."""

from __future__ import annotations

import asyncio
import sys

import pytest

from corral.base.fd_limit import for_callers


@pytest.mark.parametrize(
    ("handles", "jobs", "sends", "callers"),
    [(1024, 10, 0, 844), (1024, 10, 16, 796), (65_536, 10, 0, 65_356), (256, 10, 0, 76), (256, 100, 16, 64)],
)
def test_callers_get_what_the_service_does_not_need(handles: int, jobs: int, sends: int, callers: int) -> None:
    """A hundred, eight for each job and three for each send are kept; if that leaves too few, callers get a quarter."""
    assert for_callers(handles, jobs=jobs, sends=sends) == callers


async def test_as_many_are_taken_as_may_be_had() -> None:
    """In a process of its own, because a limit that was lowered cannot be raised."""
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (128, 512));"
        "from corral.base.fd_limit import take_all;"
        "print(take_all(), resource.getrlimit(resource.RLIMIT_NOFILE), take_all())"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()

    assert output.decode().strip() == "512 (512, 512) 512"
