"""Files and sockets: how many there are, and who may have them."""

from __future__ import annotations

import asyncio
import sys

import pytest

from corral.handles import for_callers


@pytest.mark.parametrize(
    ("handles", "jobs", "callers"),
    [(1024, 10, 844), (65_536, 10, 65_356), (256, 10, 76), (256, 100, 64), (1024, 1000, 256)],
)
def test_callers_get_what_the_service_does_not_need(handles: int, jobs: int, callers: int) -> None:
    """A hundred, and eight for each job, are kept; where that would leave too few, callers get a quarter."""
    assert for_callers(handles, jobs=jobs) == callers


async def test_as_many_are_taken_as_may_be_had() -> None:
    """In a process of its own, because a limit that was lowered cannot be raised."""
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (128, 512));"
        "from corral.handles import take_all;"
        "print(take_all(), resource.getrlimit(resource.RLIMIT_NOFILE), take_all())"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()

    assert output.decode().strip() == "512 (512, 512) 512"
