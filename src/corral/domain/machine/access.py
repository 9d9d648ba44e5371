"""
How a person logs in to one machine, and where its logs are.

The provider writes the ssh command as text. Only the user, host and port in it are used, and only if each has the form
of one: a host that begins with `-` would be an option of ssh, and other characters would be commands to a shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

SSH_PORT: Final = 22
DEFAULT_USER: Final = "root"
"""Of a command that names none: the provider's machines have this user."""
LONGEST_COMMAND: Final = 1000
LONGEST_PASSWORD: Final = 1000
LONGEST_ADDRESS: Final = 2048

_WORDS: Final = re.compile(r"[A-Za-z0-9@:.,_=/~%+\[\]\-]+( +[A-Za-z0-9@:.,_=/~%+\[\]\-]+)*")
"""Words separated by spaces, without quotes, control characters and what a shell gives a meaning."""
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_HOST: Final = re.compile(r"(?!.{254})[A-Za-z0-9][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_WITH_VALUE: Final = frozenset({"-p", "-l", "-i", "-o", "-F", "-J", "-L", "-R", "-D", "-b", "-c", "-m", "-E"})
_FLAG: Final = re.compile(r"-[46AaCfGgKkMNnqsTtvXxYy]+")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MachineAccess:
    """
    What one lookup of a machine says about logins and logs, as the provider wrote it.

    It has passwords, and addresses with tokens: it is never stored, logged or shown whole.
    """

    ssh_command: str | None = None
    ssh_password: str | None = None
    web_terminal_address: str | None = None
    web_terminal_username: str | None = None
    web_terminal_password: str | None = None
    jupyter_address: str | None = None
    system_log_address: str | None = None
    instance_log_address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTarget:
    """Where ssh connects to; each part is safe as an argument of ssh."""

    user: str
    host: str
    port: int

    @property
    def command(self) -> str:
        """The command that connects there."""
        return f"ssh -p {self.port} {self.user}@{self.host}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MachineCredentials:
    """The logins of one machine that can be used; None for each that it does not offer."""

    ssh: SshTarget | None
    ssh_password: str | None
    web_terminal_address: str | None
    web_terminal_username: str | None
    web_terminal_password: str | None
    jupyter_address: str | None

    @property
    def is_empty(self) -> bool:
        """Whether there is no login at all."""
        return self.ssh is None and self.web_terminal_address is None and self.jupyter_address is None


def credentials(access: MachineAccess) -> MachineCredentials:
    """The logins in *access*, without those that cannot be used."""
    terminal = web_address(access.web_terminal_address)
    return MachineCredentials(
        ssh=ssh_target(access.ssh_command or ""),
        ssh_password=_password(access.ssh_password),
        web_terminal_address=terminal,
        web_terminal_username=_password(access.web_terminal_username),
        web_terminal_password=_password(access.web_terminal_password),
        jupyter_address=web_address(access.jupyter_address),
    )


def ssh_target(command: str) -> SshTarget | None:
    """
    Where *command* connects to: `ssh -p 31422 root@host`, `ssh root@host -p 31422`, `ssh root@host`.

    None when it is not such a command, or has a part that is not safe to pass on.
    """
    command = command.strip(" ")
    if len(command) > LONGEST_COMMAND or not _WORDS.fullmatch(command):
        return None
    program, *words = command.split()
    if program != "ssh":
        return None
    port, user, places = "", "", list[str]()
    rest = iter(words)
    for word in rest:
        option, value = _option(word, rest)
        if option == "-p":
            port = value
        elif option == "-l":
            user = value
        elif option == "":
            places.append(word)
        elif option == "?":
            return None
    return _target(places[0], user, port) if len(places) == 1 else None


def web_address(address: str | None) -> str | None:
    """*address* if a browser may open it: http or https, a host, no user, no character that an address cannot have."""
    if address is None or len(address) > LONGEST_ADDRESS or not address.isascii() or not address.isprintable():
        return None
    if any(letter in ' \\"<>^`{|}' for letter in address):
        return None
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises when it is no port
    except ValueError:
        return None
    is_web = parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
    return address if is_web else None


def _option(word: str, rest: Iterator[str]) -> tuple[str, str]:
    """The option that *word* is and its value, which may be the next word; "" for none, "?" for an unknown one."""
    if not word.startswith("-"):
        return "", ""
    if word in _WITH_VALUE:
        return word, next(rest, "")
    if word[:2] in _WITH_VALUE:
        return word[:2], word[2:]
    return ("-", "") if _FLAG.fullmatch(word) else ("?", "")


def _target(place: str, user: str, port: str) -> SshTarget | None:
    named, at, host = place.rpartition("@")
    user = named if at else user or DEFAULT_USER
    number = int(port) if _PORT.fullmatch(port) else SSH_PORT if not port else 0
    if not _USER.fullmatch(user) or not _is_host(host) or not 1 <= number <= 65535:  # noqa: PLR2004  # what TCP has
        return None
    return SshTarget(user=user, host=host, port=number)


def _is_host(host: str) -> bool:
    if _HOST.fullmatch(host):
        return True
    try:
        return ":" in host and "%" not in host and str(ip_address(host)) == host.lower()
    except ValueError:
        return False


def _password(text: str | None) -> str | None:
    """*text* unless it is empty, absurdly long or has control characters, which no prompt can take."""
    return text if text and len(text) <= LONGEST_PASSWORD and text.isprintable() else None
