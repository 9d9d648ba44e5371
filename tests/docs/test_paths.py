"""The files and folders that the documents name exist."""

from __future__ import annotations

import re

import pytest
from support.suite import pages

PAGES = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", *map(str, sorted(pages.ROOT.glob("docs/*/*.md")))]
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.*-]*\w(?:/|\.(?:py|md|sql|toml|json|js|sh|html))?)`")
FOLDERS = ("src", "tests", "docs", "tools", "bench", "locks", "client", "deploy")
ROOTS = [pages.ROOT, pages.ROOT / "src/corral", pages.ROOT / "src"]


def named(page: str) -> list[str]:
    """The paths in backticks on *page* that begin with a folder of this tree."""
    rooms = {path.name for path in (pages.ROOT / "src/corral").iterdir() if path.is_dir()}
    first = {*FOLDERS, *rooms, "novitasim", "corral_client"}
    return [path for path in FILE.findall(pages.prose(page)) if path.partition("/")[0] in first]


@pytest.mark.parametrize("page", PAGES)
def test_every_named_file_exists(page: str) -> None:
    """A reader who follows a path finds a file."""
    missing = [path for path in named(page) if not any(list(root.glob(path.rstrip("/"))) for root in ROOTS)]

    assert missing == []


def test_the_main_pages_name_files() -> None:
    """The test above has something to check."""
    assert len(named("ARCHITECTURE.md")) > 50
    assert len(named("CONTRIBUTING.md")) > 20
