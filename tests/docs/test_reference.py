"""The reference pages say what the program does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_pages_are_made_from_the_present_tables() -> None:
    """A setting, error, event or phase that changed must change its page: `make docs`."""
    result = subprocess.run(
        [sys.executable, "tools/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stderr) == (0, "")
