"""
Everything at once: processes killed, PostgreSQL restarted, one provider call in ten failing.

`make chaos` does the same for longer, and worse.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.chaos import attack

ATTACK_SECONDS = 20.0
SEED = 1
RULES = ("kill", "restart_database")


@pytest.mark.timeout(600)
async def test_a_short_attack_breaks_no_promise(short_dir: Path) -> None:
    """Billed at most once, gone is gone, nothing lost, all at rest, each change published once and in order."""
    place = short_dir / "chaos"  # a database of its own: that of the other tests is not to be killed
    place.mkdir(mode=0o711)
    report = await attack(place, seconds=ATTACK_SECONDS, seed=SEED, rules=RULES)

    assert report.trouble == [], report
    assert min(report.requests, report.commands, *(report.strikes[rule] for rule in RULES)) > 0, "nothing was attacked"
    assert report.ends["ready"] > report.ends["failed"]
