"""
The settings a command was started with, its options, the environment and `.env` in the present directory; and its log.

What reads and writes them is imported when it is asked for: most commands only talk to a service, and a quarter of the
time that they take would go into what they do not use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corral.configuration import Configuration
    from corral.log_writer import QueuedWriter


def configuration(command_line: Mapping[str, str]) -> Configuration:
    """Every setting; raises SettingsError that names each bad one."""
    from corral.configuration import load  # noqa: PLC0415  # see above

    file = Path(".env")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return load(os.environ, dotenv=text, command_line=command_line)  # noqa: TID251  # the one place


def configure_logging(level: str, *, queued: bool = False) -> QueuedWriter | None:
    """Log from *level* on; *queued* for a service, see `telemetry.configure_logging`."""
    from corral import telemetry  # noqa: PLC0415  # see above

    return telemetry.configure_logging(level, queued=queued)
