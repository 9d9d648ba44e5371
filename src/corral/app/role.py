"""What a process does. Apart from the settings, which take long to import: every command knows its options."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a process does; said on the command line, not in a setting."""

    ALL = "all"
    API = "api"
    WORKER = "worker"
