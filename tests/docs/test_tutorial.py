"""The tutorial is true: its commands are run in their order, and print what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clock.waiting import until
from support.processes.process import quicken, serving
from support.suite import pages

PAGE = "docs/tutorial.md"


@pytest.mark.timeout(300)
async def test_the_tutorial_runs_from_its_first_command_to_its_last(short_dir: Path) -> None:
    """As a newcomer types them, on another port."""
    data_dir = short_dir / "tutorial" / ".corral"
    found = pages.lessons(PAGE)
    async with serving(data_dir) as corral:
        await quicken(data_dir)
        await until(corral.is_ready)
        said = await pages.studied(found, corral.address, data_dir.parent)

    assert {lesson.commands: lesson.missing(reported) for lesson, reported in zip(found, said, strict=True)} == {
        lesson.commands: [] for lesson in found
    }
    assert said[0].count(" ok ") == 7


def test_a_line_that_is_not_printed_is_found_out() -> None:
    """Ids, times, ports and widths may differ; words, numbers and the order may not."""
    lesson = pages.Lesson(commands="", prints="a (inst_0123456789ab) is gone\nprice  $0.18/h …\n")

    assert lesson.missing("x\na  (inst_ba9876543210) is gone\nprice $0.18/h spot\n") == []
    assert lesson.missing("a (inst_ba9876543210) is gone\nprice $0.19/h spot\n") == ["price  $0.18/h …"]
    assert lesson.missing("price $0.18/h spot\na (inst_ba9876543210) is gone\n") == ["price  $0.18/h …"]
    assert lesson.missing("a (inst_ba9876543210) is gone or not\nprice $0.18/h spot\n") != []
