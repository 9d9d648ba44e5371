"""
Ports of a machine on this computer, through ssh.

ssh listens and forwards; it runs `echo` here once it does (LocalCommand), which is how this process knows. When the
connection is lost it is opened again, at the address that the machine has then.
"""

from __future__ import annotations

import errno
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import FrameType
from typing import Final, NoReturn

from corral.cli.output import print_note
from corral.cli.remote.errors import RemoteError
from corral.cli.remote.heartbeat import Heartbeat
from corral.cli.remote.login import MachineLogin, machine_login, ssh_environment, ssh_words
from corral.cli.remote.places import Places
from corral_client import Client, Conflict

LOOPBACK: Final = "127.0.0.1"
RETRY_SECONDS: Final = 2.0
"""Between attempts to connect again."""
PATIENCE_SECONDS: Final = 300.0
"""Without a connection; a restart takes less, and a machine that does not answer for longer needs a person."""
CONNECTED: Final = "corral-connected"
_FORWARD: Final = re.compile(r"(\d{1,5})(?::(\d{1,5}))?", re.ASCII)
_PORTS: Final = range(1, 65536)
_OPTIONS: Final = (
    *("-N", "-T", "-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=ERROR"),
    *(
        "-o",
        "ServerAliveInterval=10",
        "-o",
        "ServerAliveCountMax=3",
        "-o",
        "ControlMaster=no",
        "-o",
        "ControlPath=none",
    ),
    *("-o", "PermitLocalCommand=yes", "-o", f"LocalCommand=echo {CONNECTED}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A port here, and the port of the machine that it leads to."""

    local: int
    remote: int


def read_forward(text: str) -> Forward:
    """`8888:80`, or `8888` for the same port on both sides; raises RemoteError for anything else."""
    match = _FORWARD.fullmatch(text)
    found = None if match is None else Forward(local=int(match[1]), remote=int(match[2] or match[1]))
    if found is None or found.local not in _PORTS or found.remote not in _PORTS:
        raise RemoteError(f"{text!r} is no port such as 8888, and no pair such as 8888:80 (here:machine)")
    return found


def check_free(forwards: Sequence[Forward]) -> None:
    """Raise RemoteError when a port is in use here, or may not be used."""
    for one in forwards:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, one.local))
            except OSError as error:
                taken = "is in use on this computer" if error.errno == errno.EADDRINUSE else f"cannot be used: {error}"
                other = one.local + 10_000 if one.local + 10_000 in _PORTS else one.local - 10_000
                raise RemoteError(f"port {one.local} {taken}; another one: {other}:{one.remote}") from error


def forward(client: Client, instance_id: str, forwards: Sequence[Forward], places: Places, url: str | None) -> NoReturn:
    """Forward until interrupted; raises when the machine is stopped, fails or is gone, or does not answer for long."""
    places.make()
    lost_at, problem = time.monotonic(), ""
    while True:
        login, is_connected = _login(client, instance_id), False
        if login is not None:
            with (
                Heartbeat(url, instance_id) as heartbeat,
                closing(_ssh_lines(login, forwards, places, url)) as lines,
            ):
                for line in lines:
                    is_connected = is_connected or line == CONNECTED
                    if line == CONNECTED:
                        heartbeat.start()
                        _print_forwards(login, forwards)
                    elif is_connected:
                        print_note(f"ssh: {line}")
                    else:
                        problem = line
        if is_connected and login is not None:
            lost_at = time.monotonic()
            print_note(f"The connection to {login.name} was lost; connecting again.")
        elif time.monotonic() - lost_at > PATIENCE_SECONDS:
            raise RemoteError(f"no connection for {PATIENCE_SECONDS:.0f} s" + (f": {problem}" if problem else ""))
        threading.Event().wait(RETRY_SECONDS)


def _login(client: Client, instance_id: str) -> MachineLogin | None:
    """The login, once the machine is ready; None while it offers none. Raises InstanceFailed when it will not be."""
    instance = client.instances.wait_until_ready(instance_id, timeout=None)
    try:
        return machine_login(client, instance)
    except Conflict:
        return None


def _ssh_lines(login: MachineLogin, forwards: Sequence[Forward], places: Places, url: str | None) -> Generator[str]:
    """What ssh prints while it forwards, until it ends; it is ended with the generator, also by a SIGTERM."""
    pairs = (f"{LOOPBACK}:{one.local}:{LOOPBACK}:{one.remote}" for one in forwards)
    options = (*_OPTIONS, *(word for pair in pairs for word in ("-L", pair)))
    process = subprocess.Popen(  # noqa: S603  # checked words
        ssh_words(login, places, options=options),
        env=ssh_environment(login, url),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        for line in process.stdout or ():
            yield line.decode(errors="replace").strip()
    finally:
        process.terminate()
        process.communicate()
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _print_forwards(login: MachineLogin, forwards: Sequence[Forward]) -> None:
    for one in forwards:
        print_note(f"http://{LOOPBACK}:{one.local} is port {one.remote} of {login.name}, through ssh. Ctrl-C ends it.")
