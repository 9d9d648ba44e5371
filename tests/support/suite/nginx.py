"""The nginx of this machine, or one that is unpacked for the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

PACKAGES: Final = ("nginx", "nginx-core", "nginx-light")
"""Which of them has the program differs between releases of Debian and Ubuntu."""
FETCHED_WITHIN_SECONDS: Final = 120


def found_nginx(place: Path) -> str:
    """
    Nginx from the PATH; else its package is fetched and unpacked in *place*, an empty directory, and not installed.

    Without either the test fails on CI and is skipped elsewhere.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin") or _unpacked(place)
    if program is not None:
        return program
    reason = "nginx is not installed, and its package cannot be fetched with apt-get; on Debian: apt install nginx"
    if os.environ.get("CI"):  # noqa: TID251  # a test's own question, not a setting
        pytest.fail(reason)
    pytest.skip(reason)


def _unpacked(place: Path) -> str | None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return None
    if not _fetched(place) and os.geteuid() == 0:
        _run("apt-get", "update", place=place)  # an image of a container has no lists of packages
        _fetched(place)
    for package in place.glob("*.deb"):
        _run("dpkg", "-x", str(package), str(place), place=place)
    program = place / "usr/sbin/nginx"
    return str(program) if program.exists() and _run(str(program), "-v", place=place) else None


def _fetched(place: Path) -> bool:
    fetched = [_run("apt-get", "download", package, place=place) for package in PACKAGES]
    return any(fetched)


def _run(*command: str, place: Path) -> bool:
    try:
        subprocess.run(command, cwd=place, capture_output=True, check=True, timeout=FETCHED_WITHIN_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False
    return True
