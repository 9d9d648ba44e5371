"""
The tables of docs/simulator.md, made from the code they describe.

`python -m novitasim.reference docs/simulator.md` rewrites them between the page's markers; a test fails when the
page and the code differ.
"""

from __future__ import annotations

import sys
from pathlib import Path

from novitasim import settings
from novitasim.faults import faults
from novitasim.server import control, simulator
from novitasim.workloads import behaviour, logs
from novitasim.world import load


def tables() -> dict[str, str]:
    """Every generated part of the page, by the name of its markers."""
    return {
        "settings": _table(
            ("setting", "default", "accepts", "meaning"),
            [
                (f"`{name}`", f"`{settings.shown(default)}`" if default != "" else "", accepts.words, means)
                for name, (accepts, means, default) in settings.fields().items()
            ],
        ),
        "faults": _table(("fault", "what happens"), [(f"`{fault}`", faults.MEANING[fault]) for fault in faults.Fault]),
        "guests": _table(("behaviour", "what its web ports do"), list(behaviour.MEANING.items())),
        "logs": _table(("behaviour", "what its log streams do"), list(logs.MEANING.items())),
        "samples": _table(
            ("samples", "what metrics show from then on"),
            [(f"`{fault}`", means) for fault, means in load.FAULT_MEANING.items()],
        ),
        "controls": _table(
            ("call", "what it does"), [(f"`{method} {path}`", words) for method, path, words in control.described()]
        ),
        "calls": _table(
            ("name", "call"), [(f"`{route.endpoint}`", f"`{route.method} {route.path}`") for route in simulator.ROUTES]
        ),
    }


def renewed(page: str) -> str:
    """The page with every generated part replaced; raises ValueError if a marker is missing."""
    for name, table in tables().items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->\n"
        if begin not in page or end not in page:
            raise ValueError(f"the page has no markers {begin.strip()} and {end.strip()}")
        before, _, rest = page.partition(begin)
        page = before + begin + table + end + rest.partition(end)[2]
    return page


def main() -> None:
    """Renew the page named on the command line."""
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text()))


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    main()
