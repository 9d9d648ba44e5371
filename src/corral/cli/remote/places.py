"""
The files that Corral keeps under `~/.ssh`, and whose host keys are behind a name.

Each machine has a file of host keys under its id. A name is a link to the file of the machine that has it now: one that
is created again under the same name has another id, and so does not look like an attack.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from corral.cli.remote.errors import RemoteError


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where each file is."""

    ssh: Path

    @property
    def user_config(self) -> Path:
        """The user's own configuration of ssh."""
        return self.ssh / "config"

    @property
    def config(self) -> Path:
        """The part of the configuration that is Corral's."""
        return self.ssh / "corral_config"

    @property
    def key(self) -> Path:
        """The private key that machines accept from this user."""
        return self.ssh / "corral_key"

    @property
    def public_key(self) -> Path:
        """Its public part."""
        return self.ssh / "corral_key.pub"

    @property
    def hosts(self) -> Path:
        """The directory of host keys."""
        return self.ssh / "corral_hosts"

    def host_keys(self, name: str) -> Path:
        """The host keys of an instance id, or of a host name."""
        return self.hosts / name

    def make(self) -> None:
        """Make the directories, for this user alone."""
        try:
            for directory in (self.ssh, self.hosts):
                directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise RemoteError(f"{error.filename} cannot be made: {error.strerror}") from error

    def link(self, host: str, instance_id: str) -> None:
        """Let *host* have the host keys of *instance_id* from now on."""
        self.make()
        link = self.host_keys(host)
        if link.is_symlink() and link.readlink() == Path(instance_id):
            return
        with tempfile.TemporaryDirectory(dir=self.hosts) as directory:
            made = Path(directory) / "link"
            made.symlink_to(instance_id)
            made.replace(link)


def places() -> Places:
    """The files of this user."""
    return Places(ssh=Path.home() / ".ssh")


def write_whole(file: Path, content: bytes, mode: int) -> None:
    """Write *file* completely or not at all, with *mode*; a link is followed, and stays."""
    target = file.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as opened:
            os.fchmod(opened.fileno(), mode)
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
