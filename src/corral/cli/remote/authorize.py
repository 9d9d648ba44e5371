"""The user's key on a machine, so that ssh, editors and other programs log in without a password."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from corral.cli.remote.login import MachineLogin, ssh_environment, ssh_words
from corral.cli.remote.places import Places, write_whole
from corral_client import Instance

AUTHORIZE: Final = "umask 077; mkdir -p ~/.ssh; cat >> ~/.ssh/authorized_keys"
WITHIN_SECONDS: Final = 30.0
"""A machine that accepts the connection and then says nothing must not hold up ssh for ever."""


def authorize(login: MachineLogin, instance: Instance, places: Places, url: str | None) -> str | None:
    """
    Add the public key to the machine, once after each start of it; returns what went wrong, None if nothing did.

    A container that is started again may have lost its files, and with them the key.
    """
    public = places.public_key
    if not (login.has_password and public.exists()):
        return None
    key = public.read_bytes()
    mark = f"{instance.operation.operation_id if instance.operation else instance.id} ".encode() + key
    done = _mark(places, login)
    if done.exists() and done.read_bytes() == mark:
        return None
    words = ssh_words(login, places, options=("-T", "-o", "LogLevel=ERROR"), command=(AUTHORIZE,))
    try:
        ended = subprocess.run(  # noqa: S603  # checked words
            words,
            env=ssh_environment(login, url),
            input=key,
            capture_output=True,
            timeout=WITHIN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "the machine did not answer in time"
    if ended.returncode:
        return ended.stderr.decode(errors="replace").strip() or f"ssh ended with {ended.returncode}"
    write_whole(done, mark, 0o600)
    return None


def _mark(places: Places, login: MachineLogin) -> Path:
    return places.host_keys(f"{login.instance_id}.authorized")
