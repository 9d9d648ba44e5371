"""What is distributed, and empty environments to install it into, outside the checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
UV: Final = Path(sys.executable).with_name("uv")
_INSTALLED_WITHIN_SECONDS: Final = 120


def build(place: Path) -> Path:
    """Build wheels and sdists into *place* as `make dist` does; returns *place*."""
    shell('exec sh tools/dist.sh "$1"', str(place))
    return place


def environment(place: Path, requirement: str, *, python: str = sys.executable) -> Path:
    """A new environment in *place* with *requirement* at the locked versions; returns its folder of programs."""
    made = '"$UV" venv --quiet --python "$1" "$2"'
    installed = '"$UV" pip install --quiet --python "$2" --constraint locks/embedded.txt "$3"'
    shell(f"{made} && . tools/system-certs.sh && {installed}", python, str(place), requirement)
    return place / "bin"


def shell(command: str, *arguments: str) -> None:
    """Run *command* in the checkout, with uv as `$UV`; fails with what it printed."""
    result = subprocess.run(
        ["sh", "-c", f'export UV="$0"; {command}', str(UV), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=_INSTALLED_WITHIN_SECONDS,
    )
    assert result.returncode == 0, result.stderr
