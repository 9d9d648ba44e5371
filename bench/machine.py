"""What the run took place on: as much as a reader needs to place the numbers, and nothing that names the machine."""

from __future__ import annotations

import math
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


def cpu_seconds(pid: int, *, with_ended_children: bool = False) -> float:
    """CPU time a process used so far, in all its threads; unknown where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except FileNotFoundError:
        return math.nan
    return sum(map(int, fields[11 : 15 if with_ended_children else 13])) / os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds(pid: int) -> float:
    """The same of a process and its children, also those that have ended."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except FileNotFoundError:
        return math.nan
    living = [cpu_seconds(int(child)) for child in children]
    return cpu_seconds(pid, with_ended_children=True) + sum(used for used in living if not math.isnan(used))


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
