"""
The files of an embedded cluster: made by initdb, the accounts that may connect, the socket directory and the log.

Programs of PostgreSQL are run by `command` and with `ENVIRONMENT`: under the cluster's account, and without the
service's environment, which may hold keys.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, Final

from corral.domain.errors import StoreUnavailableError
from corral.store.server import drop_privileges
from corral.store.server.cluster_location import ClusterLocation, account_name

SUPERUSER: Final = "corral"
SOCKET_PATH_LIMIT: Final = 100
"""The kernel refuses socket paths over 107 bytes, of which PostgreSQL's file name takes some."""
ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
"""
The whole environment of PostgreSQL's processes.

Every process of their account can read it; the service's own environment may hold NOVITA_API_KEY.
"""
_LOG_LIMIT_BYTES: Final = 10_000_000
_SOCKET_POINTER: Final = "socket-is-in"


def command(location: ClusterLocation, program: str, *arguments: str) -> list[str]:
    """The command line that runs a *program* of PostgreSQL under the account of *location*, and ends it with us."""
    return [
        *(sys.executable, "-I", "-S", drop_privileges.__file__),
        *(str(location.uid), str(location.gid), str(os.getpid())),
        *(str(location.binaries / program), *arguments),
    ]


def initialise(location: ClusterLocation, log_path: Path) -> None:
    """
    Make the cluster in a directory beside its place and rename it, so that a half-made one is never used.

    Raises StoreUnavailableError, and keeps the output in the log, when initdb fails.
    """
    draft = location.cluster.with_name(f"{location.cluster.name}.draft-{secrets.token_hex(4)}")
    draft.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(draft, location.uid, location.gid)
    options = ("-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions")
    result = subprocess.run(  # noqa: S603  # our own program and arguments
        command(location, "initdb", "-D", str(draft), *options),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=ENVIRONMENT,
    )
    if result.returncode != 0:
        shutil.rmtree(draft, ignore_errors=True)
        with open_log(log_path) as output:
            output.write((result.stdout + result.stderr).encode())
        raise StoreUnavailableError(f"initdb failed: {(result.stderr or result.stdout).strip()[-500:]}")
    draft.rename(location.cluster)


def access_options(location: ClusterLocation) -> dict[str, str]:
    """
    Write which accounts may connect, beside the cluster, and return the options that make the server read it.

    Only the account of the service, and root, may: for a service that runs as root, PostgreSQL's own account owns the
    socket, and other programs may run under that account. The files inside the cluster are neither read nor changed, so
    a cluster made by an earlier release works as it is.
    """
    hba, ident = (location.cluster.with_name(f"{location.cluster.name}-{name}.conf") for name in ("hba", "ident"))
    own = account_name(os.geteuid())
    method = "trust" if own is None else f"peer map={SUPERUSER}"  # an account without a name cannot be mapped
    _replace(hba, f"local all {SUPERUSER} {method}\nlocal replication {SUPERUSER} {method}\n")
    _replace(ident, "".join(f"{SUPERUSER} {_quoted(name)} {SUPERUSER}\n" for name in sorted({"root", own or "root"})))
    return {"hba_file": str(hba), "ident_file": str(ident)}


def socket_directory(data_dir: Path, location: ClusterLocation) -> Path:
    """The cluster itself, or, when its path is too long for a socket, a short private directory."""
    if len(os.fsencode(location.cluster)) + len("/.s.PGSQL.5432.lock") <= SOCKET_PATH_LIMIT:
        return location.cluster
    pointer = data_dir / _SOCKET_POINTER
    if pointer.exists() and (known := Path(pointer.read_text().strip())).is_dir():
        return known
    short = Path(tempfile.mkdtemp(prefix="corral-"))  # mode 700
    if os.geteuid() == 0:
        os.chown(short, location.uid, location.gid)
    pointer.write_text(f"{short}\n")
    return short


def remove_socket_directory(data_dir: Path) -> None:
    """Remove the short directory that `socket_directory` made, if it made one."""
    pointer = data_dir / _SOCKET_POINTER
    if pointer.exists():
        shutil.rmtree(pointer.read_text().strip(), ignore_errors=True)
        pointer.unlink()


def open_log(path: Path) -> BinaryIO:
    """The server's log, which may quote statements, for the service's account alone; a large one is renamed first."""
    if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
        path.replace(path.with_suffix(".log.1"))
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "ab")


def log_since(path: Path, size: int) -> bytes:
    """What was written to the log at *path* since it had this *size*; all of it if it was replaced meanwhile."""
    with path.open("rb") as file:
        file.seek(size if size <= path.stat().st_size else 0)
        return file.read()


def log_end(path: Path) -> str:
    """The last 2000 characters of the log."""
    return path.read_text(errors="replace")[-2000:].strip() if path.exists() else "(no log)"


def _quoted(account: str) -> str:
    doubled = account.replace('"', '""')
    return f'"{doubled}"'


def _replace(path: Path, text: str) -> None:
    """Write a file that PostgreSQL's account can read, in one step."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text)
    draft.chmod(0o644)
    draft.replace(path)
