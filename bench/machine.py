"""What the run took place on: as much as a reader needs to place the numbers, and nothing that names the machine."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def described(postgresql: str) -> dict[str, str]:
    """The machine and the versions, in reading order."""
    return {
        "CPU": _cpu_model(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "PostgreSQL": postgresql,
    }


def load_average() -> float:
    """How many processes wanted a core over the last minute."""
    return os.getloadavg()[0]


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
