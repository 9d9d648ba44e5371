"""The documents of this tree: their links, headings and examples."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from support.process import CORRAL

ROOT: Final = Path(__file__).parents[2]
SERVED: Final = "http://127.0.0.1:3000"
"""Where the documents say that the service is."""


def pages() -> list[Path]:
    """Every Markdown page, those of tools and caches left out."""
    found = (page.relative_to(ROOT) for page in ROOT.rglob("*.md"))
    return sorted(page for page in found if not any(part.startswith(".") for part in page.parts))


def text(page: str | Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str | Path, language: str) -> list[str]:
    """The fenced examples of *page* in *language*."""
    return re.findall(rf"^```{language}\n(.*?)^```", text(page), re.DOTALL | re.MULTILINE)


def prose(page: str | Path) -> str:
    """A page without its examples."""
    return re.sub(r"^```.*?^```", "", text(page), flags=re.DOTALL | re.MULTILINE)


def links(page: str | Path) -> list[str]:
    """Where a page's links lead within this tree, pictures included."""
    return re.findall(r"\]\(((?!https?://|mailto:)[^)\s]+)\)", prose(page))


def anchors(page: str | Path) -> set[str]:
    """The names that headings of *page* can be linked by, made as GitHub makes them."""
    found: dict[str, int] = {}
    names: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+)$", prose(page), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        names.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, -1) + 1
    return names


def here(command: str, address: str) -> str:
    """A *command* of a page as it is run in a test: our own `corral`, and the service at *address*."""
    ours = re.sub(
        r"\.venv/bin/corral (?!keys|config|serve|migrate|sim|version)(\S+)",
        rf"{CORRAL} \1 --url {address}",
        command,
    )
    return ours.replace(".venv/bin/corral", str(CORRAL)).replace(SERVED, address)


async def shell(command: str, cwd: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run *command* as a person's shell would, to its end; answers the exit code and all that was printed."""
    process = await asyncio.create_subprocess_shell(
        f"set -e\n{command}",
        cwd=cwd,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


def table_column(page: str | Path, column: int) -> Sequence[str]:
    """What stands in backticks in one column of the tables of *page*."""
    rows = [line.strip("|").split(" | ") for line in text(page).splitlines() if line.startswith("|")]
    return [word for row in rows if len(row) > column for word in re.findall(r"`([^`]+)`", row[column])]
