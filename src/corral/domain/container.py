"""
The container that an instance runs: the part of it that a create request gives, and merging that with a template.

The merge is one law: what the request gives replaces what the template has, variables one by one, the rest as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from corral.domain.errors import FieldProblem
from corral.domain.placement.catalog import EnvironmentVariable, Template, TemplatePort

HIGHEST_PORT: Final = 65_535
RESERVED_PORTS: Final = frozenset({2222, 2223, 2224})
"""The provider's own services listen there; its create call refuses them."""
MOST_PORTS: Final = 15
"""Ports and tools together, of one create call."""
MOST_ENVS: Final = 100
LONGEST_ENV_KEY: Final = 511
LONGEST_ENV_VALUE: Final = 4095
"""Limits of the create call. Higher, and the provider refuses what was accepted here; lower, and what it would accept
is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMount:
    """A network volume of the account, and the directory that it is mounted at."""

    id: str
    mount: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """What a request says about its container; None where it says nothing."""

    image: str | None = None
    image_auth_id: str | None = None
    """The provider's id of the registry login for the image."""
    command: str | None = field(default=None, repr=False)
    """Empty: none, also if the template has one. May hold a token, as the entry point may."""
    entrypoint: str | None = field(default=None, repr=False)
    env: tuple[EnvironmentVariable, ...] = ()
    """Added to the template's; each name once."""
    ports: tuple[TemplatePort, ...] | None = None
    """Instead of the template's; empty: none but those of its tools."""
    volumes: tuple[VolumeMount, ...] = ()
    min_cuda: str | None = None


AS_TEMPLATE: Final = ContainerSpec()
"""A container of which the request says nothing."""


def merged(template: Template | None, spec: ContainerSpec) -> Template:
    """
    The container to run: *template*, if there is one, with everything that *spec* gives instead.

    A registry login belongs to an image: with another image the template's login is not used. A tool of the template
    stays unless *spec* opens its port.
    """
    base = _NO_TEMPLATE if template is None else template
    same_image = spec.image is None or spec.image == base.image
    claimed = {port.port for port in spec.ports or ()}
    return replace(
        base,
        image=base.image if spec.image is None else spec.image,
        image_auth_id=spec.image_auth_id or (base.image_auth_id if same_image else None),
        ports=base.ports if spec.ports is None else spec.ports,
        tools=tuple(tool for tool in base.tools if tool.port not in claimed),
        envs=_merged_envs(base.envs, spec.env),
        start_command=base.start_command if spec.command is None else spec.command,
        entrypoint=base.entrypoint if spec.entrypoint is None else spec.entrypoint,
        min_cuda_version=spec.min_cuda or base.min_cuda_version,
    )


def merge_problems(container: Template, secret_names: Sequence[str] = ()) -> list[FieldProblem]:
    """Why the provider would refuse *container*, merged of parts that are each valid, with secrets of these names."""
    problems: list[FieldProblem] = []
    exposed = [*(str(port.port) for port in container.ports), *(f"{t.port} ({t.name})" for t in container.tools)]
    if len(exposed) > MOST_PORTS:
        message = f"with the template's tools there are {len(exposed)} ports, and {MOST_PORTS} are allowed"
        problems.append(FieldProblem(field="ports", code="INVALID_PORTS", message=message, shows_value=False))
    names = {env.key for env in container.envs}.union(secret_names)
    if len(names) > MOST_ENVS:
        message = f"with the template's there are {len(names)} variables, and {MOST_ENVS} are allowed"
        problems.append(FieldProblem(field="env", code="INVALID_ENV", message=message, shows_value=False))
    return problems


def _merged_envs(
    ours: tuple[EnvironmentVariable, ...], given: tuple[EnvironmentVariable, ...]
) -> tuple[EnvironmentVariable, ...]:
    """The template's variables in their order, then the others of the request; the request's value counts."""
    return tuple(({env.key: env for env in ours} | {env.key: env for env in given}).values()) if given else ours


_NO_TEMPLATE: Final = Template(
    id="",
    name="",
    image="",
    image_auth_id=None,
    ports=(),
    envs=(),
    tools=(),
    start_command="",
    entrypoint="",
    min_cuda_version="",
)
