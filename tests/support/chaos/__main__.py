"""`make chaos`."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

import uvloop

from support.chaos.run import RULES, attack


def main() -> None:
    """Run, print what was seen, and fail if a promise was broken."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=None, help="repeats a run, as far as a run can be repeated")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--rules", nargs="*", choices=tuple(RULES), default=tuple(RULES))
    chosen = parser.parse_args()
    first = random.SystemRandom().randrange(1_000_000) if chosen.seed is None else chosen.seed
    bad = 0
    for seed in range(first, first + chosen.runs):
        place = Path(tempfile.mkdtemp(prefix="corral-chaos-"))
        place.chmod(0o711)  # PostgreSQL runs as another account when this is run as root
        report = uvloop.run(attack(place, seconds=chosen.seconds, seed=seed, rules=chosen.rules))
        sys.stdout.write(f"{report}\nlogs: {place}\n")
        sys.stdout.flush()
        bad += bool(report.trouble)
    sys.exit(1 if bad else 0)


main()
