"""`python -m bench [TOPIC]...`: compare, print the table; a run of every topic is also written to `RESULTS.md`."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import uvloop

from bench import burst, churn, growth, jobs, limited, recovery, startup, web, year
from bench.comparison import Comparison, hold
from bench.environment import Environment, laid_out
from bench.figures import Row, table
from bench.machine import described, load_average
from corral.base.log import configure_logging

TOPICS: Mapping[str, Callable[[Environment], AbstractAsyncContextManager[list[Comparison]]]] = {
    "jobs": jobs.comparisons,
    "web": web.comparisons,
    "startup": startup.comparisons,
    "burst": burst.comparisons,
    "recovery": recovery.comparisons,
    "growth": growth.comparisons,
    "year": year.comparisons,
    "limited": limited.comparisons,
    "churn": churn.comparisons,
}
RESULTS = Path(__file__).with_name("RESULTS.md")
PREAMBLE = """\
# What it costs, measured

Written by `make bench`; do not edit. Where a row names a baseline, Corral and the baseline took turns on one machine:
the columns Corral and baseline are medians over the rounds, the ratio (Corral by baseline) is the median of the ratios
of each round, and the range shows the lowest and the highest of them. A row without a baseline shows Corral alone, and
the range is that of its own figures. A target applies to the ratio, or to Corral's figure where there is no baseline.
Other work may run on the machine at the same time (see the load average): trust a ratio as far as its range is narrow,
and no single figure. What limits each, and what follows for larger fleets: [scale](../docs/explanation/scale.md).
"""


async def main(wanted: Sequence[str]) -> None:
    """Run every comparison of the *wanted* topics, or of all."""
    configure_logging("warning")
    began, busy = time.monotonic(), load_average()
    held: list[Comparison] = []
    rows: list[Row] = []
    async with laid_out() as environment:
        day = environment.clock.now().date()
        machine = described(await environment.postgresql_version())
        try:
            for topic in wanted or TOPICS:
                async with TOPICS[topic](environment) as comparisons:
                    for comparison in comparisons:
                        print(f"{topic}: {comparison.title} ...", file=sys.stderr, flush=True)
                        rows += await hold(comparison)
                        held.append(comparison)
        finally:
            print(table(rows))  # also what was measured before a comparison failed
    facts = {
        "command": "`make bench`",
        "date": str(day),
        **machine,
        "load average before": f"{busy:.1f}",
        "duration": f"{time.monotonic() - began:.0f} s",
    }
    if not wanted:
        RESULTS.write_text(report(facts, held, rows), encoding="utf-8")


def report(facts: Mapping[str, str], held: Sequence[Comparison], rows: Sequence[Row]) -> str:
    """The whole page."""
    lines = [
        PREAMBLE,
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        table(rows),
        "## What a round does",
        "",
        *(_item(f"**{comparison.title}** ({comparison.rounds} rounds): {comparison.work}") for comparison in held),
    ]
    return "\n".join(lines) + "\n"


def _item(text: str) -> str:
    return textwrap.fill(f"- {text}", width=120, subsequent_indent="  ", break_on_hyphens=False)


if __name__ == "__main__":
    unknown = sorted(set(sys.argv[1:]) - set(TOPICS))
    if unknown:
        sys.exit(f"bench: no topic {', '.join(unknown)}; there are {', '.join(TOPICS)}")
    uvloop.run(main(sys.argv[1:]))
