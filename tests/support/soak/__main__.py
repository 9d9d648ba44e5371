"""`make soak`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from support.soak import run
from support.soak.report import Plan


def main() -> None:
    """`make soak`."""
    parser = argparse.ArgumentParser(description=run.__doc__)
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--calls-per-minute", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--leases", type=int, default=0, help="instances that get a lease for a second such time")
    chosen = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="corral-soak-"))
    place.chmod(0o711)  # PostgreSQL runs as another account when this is run as root
    report = asyncio.run(run.soak(place, Plan(**vars(chosen))))
    sys.stdout.write(f"{report}\nlogs: {place}\n")
    sys.exit(1 if report.trouble else 0)


if __name__ == "__main__":
    main()
