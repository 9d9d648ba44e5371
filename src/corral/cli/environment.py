"""
The settings a command was started with, its options, the environment and `.env` in the present directory; and its log.

What reads them is imported on use: most commands only call a service, and a quarter of their time would go into imports
that they do not need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from corral.domain.errors import SettingsError

if TYPE_CHECKING:
    from corral.base.configuration import Configuration
    from corral.base.log_writer import QueuedWriter


def configuration(command_line: Mapping[str, str]) -> Configuration:
    """Every setting; raises SettingsError that names each bad one."""
    from corral.base.configuration import load  # noqa: PLC0415  # see above

    return load(os.environ, dotenv=_dotenv(Path(".env")), command_line=command_line)  # noqa: TID251  # the one place


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
