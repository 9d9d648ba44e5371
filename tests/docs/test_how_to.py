"""The commands of the how-to pages do what the pages say."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clock.waiting import until
from support.processes.process import quicken, serving
from support.suite import pages

FIRST = pages.Lesson(commands='corral create first --product "RTX 4090 24GB" --template 107672\n', prints="")
TOKEN = pages.Lesson(commands="printf hf_example > token\n", prints="")
PAGES: dict[str, list[pages.Lesson]] = {
    "real-account": [],
    "private-images": [],
    "stuck-instance": [FIRST],
    "shell": [],
    "daily-loop": [TOKEN],
    "keys": [],
    "teams": [],
    "costs": [],
    "bill": [],
    "budgets": [],
    "webhooks": [],
    "verify": [FIRST],
}
"""Each page, and what was done before it is read."""
ELSEWHERE = {"backup"}
"""Pages with commands that need more than one running service; they have their own tests."""


def test_no_page_is_forgotten() -> None:
    """Commands in a page are run."""
    written = {page.stem for page in (pages.ROOT / "docs/how-to").glob("*.md") if pages.lessons(page)}

    assert sorted(written) == sorted(ELSEWHERE | set(PAGES))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
async def test_the_commands_of_the_page_run(short_dir: Path, page: str) -> None:
    """On the simulator, in their order, and print what the page says."""
    data_dir = short_dir / page / ".corral"
    found = [*PAGES[page], *pages.lessons(f"docs/how-to/{page}.md")]
    assert len(found) > len(PAGES[page])
    async with serving(data_dir) as corral:
        await quicken(data_dir)
        await until(corral.is_ready)
        said = await pages.studied(found, corral.address, data_dir.parent)

    assert {lesson.commands: lesson.missing(reported) for lesson, reported in zip(found, said, strict=True)} == {
        lesson.commands: [] for lesson in found
    }
