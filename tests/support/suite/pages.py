"""The documents of this tree: their links, headings and examples."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from support.processes.forked import shell_command
from support.processes.process import CORRAL, clean_environment

ROOT: Final = Path(__file__).parents[3]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """Commands of a page, and what it says that they print: lines, `…` where something was left out."""

    commands: str
    prints: str

    def as_run(self, address: str, corral: Path = CORRAL) -> str:
        """The commands as they are run in a test: our own `corral`, and the service at *address*."""
        found = re.sub(
            r"^((?:\.venv/bin/)?corral (?!keys|config|serve|migrate|sim|version|verify)"
            r"(?:(?:costs|budgets) (?=[a-z]))?\S+)",
            rf"\1 --url {address}",
            self.commands,
            flags=re.MULTILINE,
        )
        return found.replace(".venv/bin/corral", shlex.quote(str(corral))).replace(SERVED, address)

    def missing(self, printed: str) -> list[str]:
        """The lines of the page that were not printed, or not in this order; ids, ports and times may differ."""
        rest, missing = _plain(printed), list[str]()
        for line in self.prints.splitlines():
            *shown, last = [_plain(part) for part in line.split("…")]
            pattern = r"[^\n]*?".join([re.escape(part) for part in [*shown, last]])
            found = re.search(f"^{pattern}" + ("" if line.endswith("…") else "$"), rest, re.MULTILINE)
            if found is None:
                missing.append(line)
            else:
                rest = rest[found.end() :]
        return missing


def lessons(page: str | Path) -> list[Lesson]:
    """The shell commands of *page* in their order; a block without a language is what the commands before it print."""
    found: list[Lesson] = []
    for language, inside in re.findall(r"^```(\w*)\n(.*?)^```$", text(page), re.DOTALL | re.MULTILINE):
        if language == "sh":
            found.append(Lesson(commands=inside, prints=""))
        elif not language and found:
            found[-1] = replace(found[-1], prints=found[-1].prints + inside)
    return found


async def studied(found: Sequence[Lesson], address: str, cwd: Path) -> list[str]:
    """
    What is printed in each lesson, run one after the other in one shell, as a person does it, to the first that fails.

    `$PWD/.venv/bin` is there where the checkout is, and the home is *cwd*: commands write to `~/.ssh`. `corral` is
    forked from a process that has imported it.
    """
    with TemporaryDirectory(prefix="corral-test-") as directory:
        corral = shell_command(Path(directory), CORRAL)
        script = "\n".join(f"{lesson.as_run(address, corral.path)}\nprintf '\\n{NEXT}\\n'" for lesson in found)
        process = await asyncio.create_subprocess_exec(
            *("sh", "-ec", script.replace("$PWD/.venv/bin", directory)),
            cwd=cwd,
            env=clean_environment(PATH=f"{directory}:{CORRAL.parent}:/usr/bin:/bin", HOME=str(cwd), **corral.environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=corral.passed,
        )
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode().split(f"\n{NEXT}\n")[:-1]


NEXT: Final = "@@@ the next lesson @@@"
PLAIN: Final = (
    (r"\b(inst|op|evt|req)_[0-9a-z]{10,}", r"\1_ID"),
    (r"\b[0-9a-f]{16}\b", "HEX"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+Z)?", "TIME"),
    (r"127\.0\.0\.1:\d+|-p \d+", "PORT"),
    (r"\r", ""),
    (r" +", " "),
    (r"(?m)^ | $", ""),
)
"""What differs from run to run, or is only there for the eye."""


def _plain(printed: str) -> str:
    for pattern, plain in PLAIN:
        printed = re.sub(pattern, plain, printed)
    return printed


def table_column(page: str | Path, column: int) -> Sequence[str]:
    """What stands in backticks in one column of the tables of *page*."""
    rows = [line.strip("|").split(" | ") for line in text(page).splitlines() if line.startswith("|")]
    return [word for row in rows if len(row) > column for word in re.findall(r"`([^`]+)`", row[column])]
