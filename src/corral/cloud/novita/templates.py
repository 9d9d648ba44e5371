"""
Reads the provider's templates, and writes the body of a create call from one.

The create call takes no template id, so the parts are copied, each in another form. A template that the create call
would not accept is refused here with every problem named; values of variables are never shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeGuard

import msgspec

from corral.cloud.novita import values, wire
from corral.cloud.port import ProviderCreate
from corral.domain.container import (
    HIGHEST_PORT,
    LONGEST_ENV_KEY,
    LONGEST_ENV_VALUE,
    MOST_ENVS,
    MOST_PORTS,
    RESERVED_PORTS,
)
from corral.domain.errors import CloudRefusedError
from corral.domain.placement.catalog import (
    EnvironmentVariable,
    PortKind,
    Template,
    TemplateChannel,
    TemplatePort,
    TemplateSummary,
    TemplateTool,
)

MOST_PROBLEMS: Final = 20
LONGEST_QUOTE: Final = 64
"""Bounds the error text of a template that is wrong throughout."""


def template(seen: wire.Template, template_id: str) -> Template:
    """The template; raises CloudRefusedError INVALID_TEMPLATE with every problem."""
    problems: list[str] = []
    image = values.text(seen.image)
    if not image:
        problems.append("it has no image")
    found = Template(
        id=values.identity(seen.id) or template_id,
        name=values.text(seen.name),
        image=image,
        image_auth_id=values.text(seen.image_auth) or None,
        ports=tuple(_ports(seen.ports or [], problems)),
        envs=tuple(_envs(seen.envs or [], problems)),
        tools=tuple(_tools(seen.tools or [], problems)),
        start_command=values.text(seen.start_command),
        entrypoint=values.text(seen.entrypoint),
        min_cuda_version=values.text(seen.min_cuda_version),
    )
    exposed = [*(str(port.port) for port in found.ports), *(f"{tool.port} ({tool.name})" for tool in found.tools)]
    if len(exposed) > MOST_PORTS:
        shown = ", ".join(exposed)[: LONGEST_QUOTE * 4]
        problems.append(f"it has {len(exposed)} ports and tools, and {MOST_PORTS} are allowed: {shown}")
    if problems:
        if len(problems) > MOST_PROBLEMS:
            problems[MOST_PROBLEMS:] = [f"and {len(problems) - MOST_PROBLEMS} more"]
        raise CloudRefusedError(
            f"template {found.id} cannot be used: {'; '.join(problems)}",
            code="INVALID_TEMPLATE",
            details={"templateId": found.id, "problems": problems},
        )
    return found


def listed(seen: wire.ListedTemplate, channel: TemplateChannel) -> TemplateSummary | None:
    """The template as a list shows it; None for one without an id, or that is not for instances."""
    found = values.identity(seen.id)
    if not found or values.text(seen.type) not in {"", "instance"}:
        return None
    return TemplateSummary(
        id=found,
        name=values.text(seen.name),
        image=values.text(seen.image),
        ports=tuple(_ports(values.many(seen.ports, wire.TemplatePorts), problems=[])),
        channel=channel,
    )


def order_body(order: ProviderCreate) -> bytes:
    """The create call's JSON. It contains secrets: do not store or log it."""
    wanted = order.template
    variables = {env.key: env.value for env in (*wanted.envs, *order.secrets)}
    body: dict[str, object] = {
        "name": order.name,
        "productId": order.product_id,
        "gpuNum": order.gpu_num,
        "rootfsSize": order.rootfs_gb,
        "imageUrl": wanted.image,
        "clusterId": order.cluster_id,
        "kind": "gpu",
        "billingMode": order.billing_mode.value,
        "ports": ", ".join(f"{port.port}/{port.kind.value}" for port in wanted.ports),
        "envs": [{"key": key, "value": value} for key, value in variables.items()],
        "tools": [{"name": tool.name, "port": str(tool.port), "type": tool.kind.value} for tool in wanted.tools],
        "command": wanted.start_command,
        "entrypoint": wanted.entrypoint,
        "minCudaVersion": wanted.min_cuda_version,
        "networkStorages": [{"Id": volume.id, "mountPoint": volume.mount} for volume in order.volumes],
    }
    if order.credentials is not None:
        body["imageAuth"] = f"{order.credentials.username}:{order.credentials.password}"
    else:
        body["imageAuthId"] = wanted.image_auth_id
    # Some servers read an empty value as a value, so empty fields are not sent.
    return msgspec.json.encode({name: value for name, value in body.items() if value})


def _ports(groups: Sequence[wire.TemplatePorts], problems: list[str]) -> list[TemplatePort]:
    found: list[TemplatePort] = []
    for group in groups:
        kind = _kind(group.type, "a port", problems)
        usable = [port for port in values.wholes(group.ports) if _is_usable(port, "port", problems)]
        if kind is not None:
            found += [TemplatePort(port=port, kind=kind) for port in usable]
    return found


def _tools(tools: Sequence[wire.Tool], problems: list[str]) -> list[TemplateTool]:
    found: list[TemplateTool] = []
    for tool in tools:
        name = values.text(tool.name)
        port = values.whole(tool.port)
        shown = f"tool {name[:LONGEST_QUOTE]!r}"
        kind = _kind(tool.type, shown, problems)
        if _is_usable(port, f"port of {shown}", problems) and kind is not None:
            found.append(TemplateTool(name=name, port=port, kind=kind))
    return found


def _envs(envs: Sequence[wire.Env], problems: list[str]) -> list[EnvironmentVariable]:
    found: list[EnvironmentVariable] = []
    if len(envs) > MOST_ENVS:
        problems.append(f"it has {len(envs)} environment variables, and {MOST_ENVS} are allowed")
    for place, env in enumerate(envs, start=1):
        key = values.text(env.key)
        # The value is taken as it stands: spaces around it may be meant.
        value = env.value if isinstance(env.value, str) else values.text(env.value)
        if isinstance(env.value, bool):
            value = str(env.value).lower()
        if not key or "=" in key or "\0" in key or len(key) > LONGEST_ENV_KEY:
            problems.append(f"environment variable number {place} has no usable name")
        elif isinstance(env.value, (dict, list)) or "\0" in value or len(value) > LONGEST_ENV_VALUE:
            problems.append(f"environment variable {key[:LONGEST_QUOTE]!r} has no usable value")
        else:
            found.append(EnvironmentVariable(key=key, value=value))
    return found


def _kind(word: values.Scalar, what: str, problems: list[str]) -> PortKind | None:
    try:
        return PortKind(values.text(word).lower())
    except ValueError:
        problems.append(f"{what} has the type {values.text(word)[:20]!r}, which is not one of {', '.join(PortKind)}")
        return None


def _is_usable(port: int | None, what: str, problems: list[str]) -> TypeGuard[int]:
    if port is None:
        problems.append(f"a {what} is not a whole number")
        return False
    if not 1 <= port <= HIGHEST_PORT or port in RESERVED_PORTS:
        problems.append(f"{what} {port} is not between 1 and {HIGHEST_PORT}, or is one of 2222 to 2224")
        return False
    return True
