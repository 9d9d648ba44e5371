"""The tools work in any checkout: whatever its path, and whatever certificates the machine trusts."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from support.http.servers import CERTIFICATE
from support.suite import pages
from support.suite.pages import Lesson

SPACED = Path("/home/a b/corral/.venv/bin/corral")
UV = Path(sys.executable).with_name("uv")


def test_commands_of_the_documents_run_in_a_checkout_with_a_space_in_its_path() -> None:
    """The shell would take the part before the space for the command."""
    lesson = Lesson(commands=".venv/bin/corral wait second\n", prints="")

    assert shlex.split(lesson.as_run("http://127.0.0.1:9", SPACED))[0] == str(SPACED)


def trusts(**environment: str) -> str:
    """The value of UV_SYSTEM_CERTS that uv is run with."""
    path = {"PATH": os.environ["PATH"], "UV": str(UV)}  # noqa: TID251
    script = '. tools/system-certs.sh; printf "%s" "${UV_SYSTEM_CERTS:-}"'
    command = ("sh", "-euc", script)
    return subprocess.check_output(command, cwd=pages.ROOT, env=path | environment, text=True)


def test_uv_trusts_the_authorities_of_the_system_unless_set_otherwise() -> None:
    """Behind a proxy that inspects TLS, uv's own list lacks the proxy; without a list of the system uv cannot start."""
    assert trusts(SSL_CERT_FILE=str(CERTIFICATE)) == "true"
    assert trusts(SSL_CERT_FILE=str(CERTIFICATE), UV_SYSTEM_CERTS="false") == "false"
