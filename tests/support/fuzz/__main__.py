"""`make fuzz`: every target in turn, guided by coverage, for a share of the time each."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.fuzz.planted import PLANTED
from support.fuzz.target import SEEDS
from support.fuzz.targets import TARGETS

KEPT: Final = Path(".fuzz")
"""Inputs that reached something new, for the next run to begin with; and those that broke something."""
MOST_SECONDS_AN_INPUT: Final = 5
"""16 KB are read in milliseconds; what takes so long takes for ever if it is a little longer."""
MOST_MEGABYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What became of one target."""

    name: str
    executions: int
    edges: int
    """Of our code, as libFuzzer counts what was reached."""
    inputs: int
    found: str | None
    """What libFuzzer said when it stopped early, and where the input is."""

    def __str__(self) -> str:
        result = "nothing found" if self.found is None else f"FOUND\n{self.found}"
        return (
            f"{self.name:10} {self.executions:>10,} executions {self.edges:>5} edges {self.inputs:>5} inputs  {result}"
        )


def fuzz(name: str, seconds: int) -> Run:
    """Drive one target for so long, or until something is found."""
    place = KEPT / name
    (place / "inputs").mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "support.fuzz.guided", name, str(place),
        f"-max_total_time={seconds}", f"-timeout={MOST_SECONDS_AN_INPUT}", f"-rss_limit_mb={MOST_MEGABYTES}",
        f"-artifact_prefix={place}/libfuzzer-", "-print_final_stats=1", str(place / "inputs"), str(SEEDS / name),
    ]  # fmt: skip
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    said = ended.stdout.decode("utf-8", "replace")
    (place / "log").write_text(said, encoding="utf-8")
    return Run(
        name=name,
        executions=_last(r"stat::number_of_executed_units:\s+(\d+)", said),
        edges=_last(r"cov: (\d+)", said),
        inputs=_last(r"corp: (\d+)", said),
        found=None if ended.returncode == 0 else _finding(said, place),
    )


def _last(pattern: str, said: str) -> int:
    found = re.findall(pattern, said)
    return int(found[-1]) if found else 0


def _finding(said: str, place: Path) -> str:
    _, mark, rest = said.partition("=== Uncaught Python exception: ===")
    reported = (mark + rest if mark else said)[-3000:]
    return (
        f"{reported}\n(inputs: {', '.join(map(str, sorted(place.glob('broken-*')))) or 'none'}; the whole: {place}/log)"
    )


def main() -> None:
    """Drive what is asked for, and fail if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="for all targets together")
    parser.add_argument("--afresh", action="store_true", help="forget what earlier runs reached")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all of them if none is named")
    chosen = parser.parse_args()
    names: list[str] = chosen.targets or list(TARGETS)
    if unknown := set(names) - {*TARGETS, PLANTED.name}:
        parser.error(f"there is no target {', '.join(sorted(unknown))}")
    if chosen.afresh:
        shutil.rmtree(KEPT, ignore_errors=True)
    bad = 0
    for name in names:
        run = fuzz(name, max(1, chosen.seconds // len(names)))
        sys.stdout.write(f"{run}\n")
        sys.stdout.flush()
        bad += run.found is not None
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
