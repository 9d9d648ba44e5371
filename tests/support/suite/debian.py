"""Programs of this machine, or of Debian packages that are unpacked for the tests and not installed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

KEPT: Final = Path(__file__).resolve().parents[3] / ".venv" / "debian"
"""Where unpacked programs stay for later runs; `make clean` removes them."""
FETCHED_WITHIN_SECONDS: Final = 120


def found(name: str, packages: Sequence[str]) -> str:
    """
    The path of the program *name*, from the PATH; else of the first of *packages* that can be fetched and has it.

    Without either the test fails on CI and is skipped elsewhere.
    """
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin") or _unpacked(name, packages)
    if program is not None:
        return program
    reason = f"{name} is not installed, and its package cannot be fetched with apt-get; on Debian: apt install {name}"
    if os.environ.get("CI"):  # noqa: TID251  # a test's own question, not a setting
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def one_at_a_time() -> Generator[None]:
    """Wait until no other worker uses apt-get: it fails while another one holds its lock."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unpacked(name: str, packages: Sequence[str]) -> str | None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return None
    with one_at_a_time():
        return _program(KEPT / name, name) or _fetched_program(name, packages)


def _fetched_program(name: str, packages: Sequence[str]) -> str | None:
    draft = Path(tempfile.mkdtemp(prefix=f"{name}.draft-", dir=KEPT))
    if not _fetched(packages, draft) and os.geteuid() == 0:
        _run("apt-get", "update", place=draft)  # an image of a container has no lists of packages
        _fetched(packages, draft)
    for package in draft.glob("*.deb"):
        _run("dpkg", "-x", str(package), str(draft), place=draft)
    if _program(draft, name) is None:
        shutil.rmtree(draft)
        return None
    draft.rename(KEPT / name)
    return _program(KEPT / name, name)


def _program(place: Path, name: str) -> str | None:
    return next(
        (str(place / folder / name) for folder in ("usr/sbin", "usr/bin") if (place / folder / name).exists()), None
    )


def _fetched(packages: Sequence[str], place: Path) -> bool:
    fetched = [_run("apt-get", "download", package, place=place) for package in packages]
    return any(fetched)


def _run(*command: str, place: Path) -> bool:
    try:
        subprocess.run(command, cwd=place, capture_output=True, check=True, timeout=FETCHED_WITHIN_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False
    return True
