"""Answers ssh's question for the password of a machine, as SSH_ASKPASS."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from corral_client import Client

ASKED_FOR: Final = "CORRAL_ASKPASS_FOR"
"""The variable that has the id of the instance that ssh logs in to."""


def is_askpass(arguments: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether ssh started this executable, with its prompt as the only argument."""
    return ASKED_FOR in environ and len(arguments) == 2 and " " in arguments[1]  # noqa: PLR2004


def answer(prompt: str, instance_id: str) -> int:
    """Print the password for ssh; returns the exit code, which is 1 for any other question."""
    if "assword" not in prompt:
        return 1
    with Client() as client:
        login = client.instances.credentials(instance_id).ssh
    if login is None or login.password is None:
        return 1
    sys.stdout.write(f"{login.password}\n")
    sys.stdout.flush()
    return 0
