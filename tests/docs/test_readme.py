"""The README is true: its commands run and print what it says, and it is short."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clock.waiting import until
from support.processes.process import quicken, serving
from support.suite import pages

PAGE = "README.md"


def test_it_is_short() -> None:
    """Under 150 lines, so that it is read."""
    assert len(pages.text(PAGE).splitlines()) < 150


@pytest.mark.timeout(300)
async def test_its_commands_do_what_it_says(short_dir: Path) -> None:
    """Everything after `make run` is run as it stands there, on another port."""
    first, *found = pages.lessons(PAGE)
    assert first.commands == "make run\n"
    assert "corral serve" in pages.text("Makefile")
    data_dir = short_dir / "readme" / ".corral"
    async with serving(data_dir, cluster="none") as corral:
        assert first.missing("".join(corral.lines)) == []
        await quicken(data_dir)
        await until(corral.is_ready)
        said = await pages.studied(found, corral.address, data_dir.parent)

    assert {lesson.commands: lesson.missing(printed) for lesson, printed in zip(found, said, strict=True)} == {
        lesson.commands: [] for lesson in found
    }
