"""
`Host corral-NAME` in the user's configuration of ssh.

Corral's own part is a file beside it; the user's file gets one line, at its top, because a line below a `Host` belongs
to that host.
"""

from __future__ import annotations

import shlex
import shutil
import stat
import subprocess
from typing import Final

from corral.cli.remote.login import quoted, ssh_program
from corral.cli.remote.places import Places, write_whole

PREFIX: Final = "corral-"
PRIVATE: Final = 0o600

_TEXT: Final = """\
# Written by `corral ssh-config --install`; `corral ssh-config --remove` removes it.
Host {prefix}* "!*'*"
    User root
    ProxyCommand {command} '%n'
    IdentityFile {key}
    IdentitiesOnly yes
    UserKnownHostsFile {hosts}
    StrictHostKeyChecking accept-new
    UpdateHostKeys no
    CheckHostIP no
"""
"""A host name with a quote is excluded: the command is run by a shell, and a link in a page can name any host."""


def config_text(places: Places, executable: str, url: str | None) -> str:
    """Corral's part of the configuration; *url* is the service that names are looked up at."""
    words = [executable, "ssh-proxy", *(() if url is None else ("--url", url))]
    return _TEXT.format(
        prefix=PREFIX,
        command=shlex.join(words).replace("%", "%%"),
        key=quoted(str(places.key)),
        hosts=quoted(str(places.hosts))[:-1] + '/%n"',
    )


def include_line(places: Places) -> bytes:
    """The one line in the user's own file."""
    return f"Include {quoted(str(places.config))}\n".encode()


def install(places: Places, executable: str, url: str | None) -> None:
    """Write Corral's part and its key, and include the part in the user's file, which is otherwise left as it is."""
    places.make()
    if not places.key.exists():
        words = [ssh_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "corral", "-f", str(places.key)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)  # noqa: S603  # our own words
    write_whole(places.config, config_text(places, executable, url).encode(), PRIVATE)
    present, line = _present(places), include_line(places)
    if line.strip() not in [one.strip() for one in present.splitlines()]:
        write_whole(places.user_config, line + present, _mode(places))


def remove(places: Places) -> None:
    """Remove what `install` wrote; an own file that has nothing else is removed with it."""
    present, line = _present(places), include_line(places).strip()
    kept = b"".join(one for one in present.splitlines(keepends=True) if one.strip() != line)
    if kept != present and not kept and not places.user_config.is_symlink():
        places.user_config.unlink()
    elif kept != present:
        write_whole(places.user_config, kept, _mode(places))
    for file in (places.config, places.key, places.public_key):
        file.unlink(missing_ok=True)
    shutil.rmtree(places.hosts, ignore_errors=True)


def is_installed(places: Places) -> bool:
    """Whether the configuration is there and included."""
    lines = [one.strip() for one in _present(places).splitlines()]
    return places.config.exists() and include_line(places).strip() in lines


def _present(places: Places) -> bytes:
    try:
        return places.user_config.read_bytes()
    except FileNotFoundError:
        return b""


def _mode(places: Places) -> int:
    try:
        return stat.S_IMODE(places.user_config.stat().st_mode)
    except FileNotFoundError:
        return PRIVATE
