"""One word has one meaning: the glossary is short, class names are unique, and abandoned words do not come back."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

from support.suite import pages

CHECKED: Final = (
    "ARCHITECTURE.md", "CONTRIBUTING.md", "Makefile", "README.md", "pyproject.toml",
    "bench", "docs", "src", "tests", "tools",
)  # fmt: skip
"""Everything but the changelog, which is history."""

EXEMPT: Final = ("tests/docs/test_language.py", "src/corral/store/migrations")
"""This list itself, and migrations, which are never edited once they are released."""

SUFFIXES: Final = frozenset({".py", ".md", ".js", ".html", ".css", ".sql", ".sh", ".toml", ".json"})

ABANDONED: Final = frozenset({
    "aisle", "anew", "errand", "glimpse", "herd", "keyring", "misdeed", "namesake", "newsroom", "nobody", "paddock",
    "premise", "shelf", "solitude", "somebody", "stillbirth", "told", "unborn", "verdict", "whoever", "whomever",
    "wish", "witness",
})  # fmt: skip
"""Words of an earlier vocabulary, for which the glossary or plain English has another."""

PUBLIC: Final = {
    "nobody": ("src/corral/store/server/cluster_location.py",),
    "verdict": ("src/corral/cli/commands/service/doctor.py", "docs/how-to/real-account.md", "tests/e2e/test_doctor.py"),
}
"""Abandoned words that are names outside this code: a Unix account, and a field of `corral doctor --json`."""

FORMS: Final = frozenset(word + ending for word in ABANDONED for ending in ("", "s", "es", "ed", "ing"))

PROVIDER_SHAPES: Final = Path("src/corral/cloud/novita/wire.py")
"""Its classes have the provider's names, and are always written `wire.Instance`."""


def test_the_glossary_has_at_most_twenty_words() -> None:
    """More would be a private language."""
    words = re.findall(r"^- \*\*([a-z ]+)\*\*: ", pages.text("docs/explanation/glossary.md"), re.MULTILINE)

    assert 10 < len(words) <= 20
    assert len(words) == len(set(words))


def test_no_two_classes_share_a_name() -> None:
    """A reader who searches for a class finds one."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((pages.ROOT / "src/corral").rglob("*.py")):
        if path.relative_to(pages.ROOT) == PROVIDER_SHAPES:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(pages.ROOT)))

    assert len(found) > 200
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_abandoned_words_do_not_come_back() -> None:
    """In names, texts, comments and file names."""
    found = [
        f"{path.relative_to(pages.ROOT)}:{number}: {', '.join(sorted(words))}"
        for path in _files()
        for number, line in enumerate([path.name, *path.read_text(encoding="utf-8").splitlines()])
        if (
            words := {word for word in abandoned(line) if str(path.relative_to(pages.ROOT)) not in PUBLIC.get(word, ())}
        )
    ]

    assert found == []


def test_abandoned_words_are_found_in_names_and_inflected() -> None:
    """The test above can fail."""
    assert abandoned("async def read_wishes(raw): ...") == {"wishes"}
    assert abandoned("class PlainWish:") == {"wish"}
    assert abandoned("WISHED = 1  # Nobody's") == {"wished", "nobody"}
    assert abandoned("the shepherd; a wishful old teller") == set()


def abandoned(line: str) -> set[str]:
    """The abandoned words in *line*, also inside identifiers."""
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", line)}
    return words & FORMS


def _files() -> list[Path]:
    roots = [pages.ROOT / name for name in CHECKED]
    found = [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*")))]
    skipped = tuple(pages.ROOT / name for name in EXEMPT)
    return [
        path
        for path in found
        if path.is_file()
        and (path.suffix in SUFFIXES or path in roots)
        and not {"__pycache__", "node_modules"} & set(path.parts)
        and not any(path.is_relative_to(each) for each in skipped)
    ]
