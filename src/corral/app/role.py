"""What a process does. Not in the settings, which take long to import: every command needs this for its options."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a process does; an option of the command line, not a setting."""

    ALL = "all"
    API = "api"
    WORKER = "worker"
