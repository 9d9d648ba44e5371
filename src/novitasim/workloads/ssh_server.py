"""
The ssh server of one machine, by asyncssh: password or key, the commands of `shell.py`, forwards of its own ports.

Imported when the first client connects, because asyncssh takes half a second to import, and may not be installed. A
client can neither run a program of the host nor reach another address through it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import hmac
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import asyncssh
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from novitasim.workloads import shell
from novitasim.workloads.shell import Machine

USER = "root"
_Reader = asyncssh.SSHReader[bytes]
_Writer = asyncssh.SSHWriter[bytes]
_Handler = Callable[[_Reader, _Writer], Awaitable[None]]
_CHUNK = 65_536
_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_LOGIN_SECONDS = 30
_SUBSYSTEM_REFUSED = 127
# The end of what ssh-copy-id and its like run.
_ADDS_KEYS = ">> ~/.ssh/authorized_keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A machine as its ssh server sees it; *forward* gives the loopback port behind one of its own, None if closed."""

    password: str
    keys: set[str]
    """Public keys that were added to it, each as its text in base 64."""
    host_key_seed: str
    machine: Callable[[], Machine]
    forward: Callable[[int], int | None]


async def serve(connected: socket.socket, guest: Guest) -> asyncssh.SSHServerConnection | None:
    """Speak ssh on a connected socket; returns the connection once the client has logged in, None if it did not."""
    with contextlib.suppress(OSError, asyncssh.Error):
        return await asyncssh.run_server(
            connected,
            config=None,
            server_factory=lambda: _Server(guest),
            server_host_keys=[_host_key(guest.host_key_seed)],
            server_version="OpenSSH_9.6",
            process_factory=functools.partial(_session, guest),
            agent_forwarding=False,
            login_timeout=_LOGIN_SECONDS,
            errors="replace",
        )
    return None


def _host_key(seed: str) -> asyncssh.SSHKey:
    """A key that follows from the seed, not from storage. It protects nothing: a simulated machine holds no secret."""
    private = Ed25519PrivateKey.from_private_bytes(hashlib.blake2b(seed.encode(), digest_size=32).digest())
    return asyncssh.import_private_key(private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))


class _Server(asyncssh.SSHServer):
    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return username == USER and hmac.compare_digest(password.encode(), self._guest.password.encode())

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == USER and key.export_public_key().decode().split()[1] in self._guest.keys

    def connection_requested(
        self,
        dest_host: str,
        dest_port: int,
        orig_host: str,  # noqa: ARG002  # the name is asyncssh's
        orig_port: int,  # noqa: ARG002  # the name is asyncssh's
    ) -> bool | _Handler:
        is_own = dest_host in {*_OWN_NAMES, self._guest.machine().name}
        number = self._guest.forward(dest_port) if is_own else None
        return False if number is None else functools.partial(_forward, number)


async def _forward(number: int, reader: _Reader, writer: _Writer) -> None:
    """Copy both ways between a channel and a loopback port until both have ended."""
    with contextlib.suppress(OSError, asyncssh.Error):
        near_reader, near_writer = await asyncio.open_connection("127.0.0.1", number)
        try:
            await asyncio.gather(_copy(reader, near_writer), _copy(near_reader, writer))
        finally:
            near_writer.close()
    writer.close()


async def _copy(source: _Reader | asyncio.StreamReader, target: _Writer | asyncio.StreamWriter) -> None:
    while part := await source.read(_CHUNK):
        target.write(part)
        await target.drain()
    target.write_eof()


async def _session(guest: Guest, process: asyncssh.SSHServerProcess[str]) -> None:
    if process.subsystem is not None:
        process.exit(_SUBSYSTEM_REFUSED)
    elif process.command is None:
        await _interactive(process, guest)
    elif process.command.strip() == "cat":
        async for part in process.stdin:
            process.stdout.write(part)
        process.exit(0)
    elif process.command.endswith(_ADDS_KEYS):
        async for line in process.stdin:
            guest.keys.update(line.split()[1:2])
        process.exit(0)
    else:
        process.exit(_print(process, shell.run(guest.machine(), process.command)))


async def _interactive(process: asyncssh.SSHServerProcess[str], guest: Guest) -> None:
    prompt = f"{USER}@{guest.machine().name}:~# " if process.term_type is not None else ""
    status = 0
    process.stdout.write(prompt)
    async for line in process.stdin:
        done = shell.run(guest.machine(), line)
        status = _print(process, done)
        if done.ends:
            break
        process.stdout.write(prompt)
    process.exit(status)


def _print(process: asyncssh.SSHServerProcess[str], done: shell.Result) -> int:
    process.stdout.write(done.output)
    process.stderr.write(done.error)
    return done.status
