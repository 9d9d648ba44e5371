"""`corral serve` with a clock that is off by the seconds in the first argument; the others are its own."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

from corral.base.clock import SystemClock
from corral.cli.main import main

AHEAD = timedelta(seconds=float(sys.argv.pop(1)))


def skewed(_clock: SystemClock) -> datetime:
    return datetime.now(UTC) + AHEAD  # noqa: TID251  # the machine's clock, as it is in this test


if __name__ == "__main__":
    SystemClock.wall = skewed  # type: ignore[assignment, method-assign]
    main()
