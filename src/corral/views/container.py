"""The container of a create request as responses show it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.container import ContainerSpec

Image = Annotated[str | None, Meta(description="The image that was requested; null: the template's.")]
ImageAuthId = Annotated[str | None, Meta(description="The registry login that was requested for the image.")]
Command = Annotated[str | None, Meta(description="What was requested to run; null: what the template runs.")]
EntryPoint = Annotated[str | None, Meta(description="The entry point that was requested; null: the template's.")]
Env = Annotated[dict[str, str], Meta(description="The variables that were requested, beside the template's.")]
SecretNames = Annotated[
    list[str], Meta(description="The variables of the request's `secrets`; their values are not shown.")
]
Ports = Annotated[list[str] | None, Meta(description="The ports that were requested; null: the template's.")]
MinCuda = Annotated[str | None, Meta(description="The lowest CUDA version that was requested; null: the template's.")]


class MountedVolume(msgspec.Struct):
    """A network volume, and where the container sees it."""

    id: Annotated[str, Meta(description="The provider's id.")]
    mount: Annotated[str, Meta(description="The directory.")]


Volumes = Annotated[list[MountedVolume], Meta(description="The network volumes that were requested.")]


def env_of(spec: ContainerSpec) -> dict[str, str]:
    """The variables that *spec* gives, by name."""
    return {env.key: env.value for env in spec.env}


def ports_of(spec: ContainerSpec) -> list[str] | None:
    """The ports that *spec* gives, as requests write them."""
    return None if spec.ports is None else [f"{port.port}/{port.kind.value}" for port in spec.ports]


def volumes_of(spec: ContainerSpec) -> list[MountedVolume]:
    """The volumes that *spec* mounts."""
    return [MountedVolume(id=volume.id, mount=volume.mount) for volume in spec.volumes]
