"""Every link between our pages leads somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.suite import pages


@pytest.mark.parametrize("page", pages.pages(), ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file or folder of this tree and, where they say so, to a heading in it."""
    broken: list[str] = []
    for link in pages.links(page):
        path, _, anchor = link.partition("#")
        target = (pages.ROOT / page.parent / path) if path else pages.ROOT / page
        if not target.exists() or (anchor and anchor not in pages.anchors(target)):
            broken.append(link)

    assert broken == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    """A page without a link cannot be found."""
    reached, ahead = set[Path](), [Path("README.md")]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        found = {(pages.ROOT / page.parent / link.partition("#")[0]).resolve() for link in pages.links(page)}
        onward = {f.relative_to(pages.ROOT) for f in found if f.suffix == ".md" and f.is_relative_to(pages.ROOT)}
        folders = [f for f in found if f.is_dir()]
        onward |= {inner.relative_to(pages.ROOT) for folder in folders for inner in folder.glob("*.md")}
        ahead += [p for p in onward - reached if p not in ahead]

    assert [str(page) for page in pages.pages() if page not in reached] == []


def test_headings_are_named_as_github_names_them() -> None:
    """Code marks and punctuation vanish, spaces become hyphens."""
    names = pages.anchors("docs/reference/cli.md")

    assert {"the-command-line", "exit-codes", "corral-wait-name"} <= names
