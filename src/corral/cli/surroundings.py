"""The settings a command was started with: its options, the environment and `.env` in the present directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from corral.configuration import Configuration, load


def configuration(command_line: Mapping[str, str]) -> Configuration:
    """Every setting; raises SettingsError that names each bad one."""
    file = Path(".env")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return load(os.environ, dotenv=text, command_line=command_line)  # noqa: TID251  # the one place
