"""
The names that Corral gives machines at the provider, by which a lost create is found.

`corral-<installation>-<instance>-<attempt>` is unique for each create call, and gives the installation, the instance
and the attempt. The provider allows letters, digits and hyphens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from corral.domain.instance import InstanceId

_INSTALLATION = "[0-9a-f]{6}"
_FORM = re.compile(rf"corral-({_INSTALLATION})-inst-([0-9a-z]+)-(0|[1-9][0-9]{{0,8}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderName:
    """The parts of a name."""

    installation: str
    instance_id: InstanceId
    attempt: int


def provider_name(origin: ProviderName) -> str:
    """The name of the attempt at the provider."""
    return f"{name_start(origin.installation, origin.instance_id)}-{origin.attempt}"


def name_start(installation: str, instance_id: InstanceId) -> str:
    """How the names of all attempts for the instance begin."""
    return f"{installation_start(installation)}{instance_id.replace('_', '-')}"


def installation_start(installation: str) -> str:
    """How the names of all machines that the installation makes begin."""
    return f"corral-{installation}-"


def parse_provider_name(name: str) -> ProviderName | None:
    """The parts of *name*; None if it is not a name that Corral gives."""
    found = _FORM.fullmatch(name)
    if found is None:
        return None
    return ProviderName(installation=found[1], instance_id=InstanceId(f"inst_{found[2]}"), attempt=int(found[3]))


def is_installation(text: str) -> bool:
    """Whether *text* can be the id of an installation."""
    return re.fullmatch(_INSTALLATION, text) is not None
