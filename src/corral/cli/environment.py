"""
The settings a command was started with: options, environment, `.env` and files of secrets; and its log.

What reads them is imported on use: most commands only call a service, and a quarter of their time would go into imports
that they do not need.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from corral.domain.errors import SettingsError

if TYPE_CHECKING:
    from corral.base.log_writer import QueuedWriter
    from corral.base.settings.configuration import Configuration

_MOST_SECRET_BYTES: Final = 65_536
"""More than a key or an address has; a file or device given by mistake is not read whole."""


def configuration(command_line: Mapping[str, str]) -> Configuration:
    """Every setting; raises SettingsError that names each bad one."""
    from corral.base.settings.configuration import FILE_SUFFIX, load, secret_files  # noqa: PLC0415  # see above

    environ, dotenv = os.environ, _dotenv(Path(".env"))  # noqa: TID251  # the one place
    named = secret_files(environ, dotenv=dotenv)
    files = {name: _secret(Path(path), setting=name + FILE_SUFFIX) for name, path in named.items()}
    return load(environ, dotenv=dotenv, command_line=command_line, files=files)


def _secret(file: Path, *, setting: str) -> str:
    """
    The text of *file* without the line ends and spaces around it; raises SettingsError naming *setting*.

    An empty file is an error too: without a key, the simulator would silently replace the provider.
    """
    try:
        with open(file, "rb", opener=_open_at_once) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise SettingsError(f"{setting}={file} is not a file")
            read = opened.read(_MOST_SECRET_BYTES + 1)
    except IsADirectoryError as error:
        raise SettingsError(f"{setting}={file} is not a file") from error
    except OSError as error:
        raise SettingsError(f"{setting}={file} cannot be read: {error.strerror}") from error
    if len(read) > _MOST_SECRET_BYTES:
        raise SettingsError(f"{setting}={file} is too long: accepted are {_MOST_SECRET_BYTES} bytes")
    try:
        text = read.decode().strip()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{setting}={file} cannot be read: byte {error.start + 1} is not UTF-8") from error
    if not text:
        raise SettingsError(f"{setting}={file} is empty")
    return text


def _open_at_once(path: str, flags: int) -> int:
    """Open a file for `open`; a pipe without a writer too, which would otherwise wait for one, in silence."""
    return os.open(path, flags | os.O_NONBLOCK)


def _dotenv(file: Path) -> str:
    """The text of *file*, empty when there is none; raises SettingsError when it cannot be read."""
    try:
        return file.read_text(encoding="utf-8") if file.is_file() else ""
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file} cannot be read: byte {error.start + 1} is not UTF-8") from error
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from error


def configure_logging(level: str, *, queued: bool = False) -> QueuedWriter | None:
    """Log from *level* on; *queued* for a service, see `log.configure_logging`."""
    from corral.base import log  # noqa: PLC0415  # see above

    return log.configure_logging(level, queued=queued)


def open_standard_streams() -> None:
    """
    Open `/dev/null` in place of each standard stream that this process was started without.

    Else the next file or socket would get its number, and processes that we start would inherit it as their output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    # Python has no object for a stream that was closed at its start.
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # open until the end
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
