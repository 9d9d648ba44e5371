"""The provider's catalog calls: products, clusters, templates."""

from __future__ import annotations

import dataclasses

from novitasim.api import create_request, wire_catalog
from novitasim.api.call import Call, Reply, Route, answer, page
from novitasim.api.create_request import Body, invalid, objects, text, whole
from novitasim.world.account import Template
from novitasim.world.instance import Port

_BASE = "/gpu-instance/openapi/v1"
_CHANNELS = ("official", "community", "private")
_MOST_PORTS_PER_TYPE = 10


def products(call: Call) -> Reply:
    """GET /products. With a cluster, its stock; without, that of the best cluster."""
    query = call.query
    cluster_id, name, method = (query.get(key, "") for key in ("clusterId", "productName", "billingMethod"))
    if call.world.settings.product_filters == "ignored":
        cluster_id = method = ""
    least = {key: _number(call, key) for key in ("gpuNum", "minCpuPerGpu", "minMemoryPerGpu", "minRootFSSize")}
    shown = [
        wire_catalog.product(call.world, product, call.now, cluster_id=cluster_id, gpus=least["gpuNum"])
        for product in call.world.catalog.products.values()
        if (not cluster_id or cluster_id in product.clusters)
        and name.lower() in product.name.lower()
        and (not method or method in product.billing_methods)
        and product.cpus >= least["minCpuPerGpu"]
        and product.memory_gb >= least["minMemoryPerGpu"]
        and product.max_rootfs_gb >= least["minRootFSSize"]
    ]
    return answer({"data": shown})


def cpu_products(call: Call) -> Reply:
    """GET /cpu/products."""
    name = call.query.get("productName", "").lower()
    shown = [
        wire_catalog.cpu_product(item) for item in call.world.catalog.cpu_products.values() if name in item.name.lower()
    ]
    return answer({"data": shown} if call.world.settings.cpu_products_wrapped else shown)


def clusters(call: Call) -> Reply:
    """GET /clusters."""
    return answer({"data": [wire_catalog.cluster(call.world, item) for item in call.world.catalog.clusters.values()]})


def templates(call: Call) -> Reply:
    """GET /templates. The array's key is singular; channels may be joined by commas."""
    query = call.query
    if call.world.settings.templates_need_channel and not query.get("channel"):
        raise invalid("invalid channel: required")
    channels = [channel for channel in query.get("channel", "").split(",") if channel]
    if any(channel not in _CHANNELS for channel in channels):
        raise invalid("invalid channel: must be official, community or private")
    name, kind = query.get("name", "").lower(), query.get("type", "")
    found = [
        template
        for template in call.world.templates.values()
        if (not channels or template.channel in channels)
        and name in template.name.lower()
        and (not kind or kind == template.type)
    ]
    part = page(call, base=call.world.settings.template_page_base)
    shown = [wire_catalog.template(template) for template in found[part.first : part.first + part.count]]
    return answer({"template": shown, "pageSize": part.count, "pageNum": part.number, "total": len(found)})


def template(call: Call) -> Reply:
    """GET /template."""
    return answer({"template": wire_catalog.template(_find(call, call.query.get("templateId", "")))})


def template_create(call: Call) -> Reply:
    """POST /template/create."""
    seq = call.world.number()
    made = _read(call, Template(id=call.world.template_id(seq), name="", image="", created_at=int(call.now)))
    call.world.keep("template", call.world.templates, made)
    return answer({"templateId": made.id})


def template_update(call: Call) -> Reply:
    """POST /template/update; undocumented, but used by the provider's own command line."""
    known = _find(call, text(_payload(call), "Id", low=1, high=255))
    call.world.keep("template", call.world.templates, _read(call, known))
    return answer({"templateId": known.id})


def template_delete(call: Call) -> Reply:
    """POST /template/delete."""
    known = _find(call, call.id("templateId"))
    call.world.discard("template", call.world.templates, known.id)
    return answer({"templateId": known.id})


def _number(call: Call, name: str) -> int:
    raw = call.query.get(name) or "0"
    if not raw.isdecimal():
        raise invalid(f"invalid {name}: must be an integer >= 0")
    return int(raw)


def _find(call: Call, template_id: str) -> Template:
    known = call.world.templates.get(template_id)
    if known is None:
        raise call.world.not_found("template", "TEMPLATE_NOT_FOUND")
    return known


def _payload(call: Call) -> Body:
    payload = call.body.get("template")
    if not isinstance(payload, dict):
        raise invalid("invalid template: must be an object")
    return payload


def _read(call: Call, base: Template) -> Template:
    """The template of a body. A broken one (bad ports, no image) is not stopped here more than the provider would."""
    body = _payload(call)
    channel = text(body, "channel", high=63, default="private")
    if channel not in _CHANNELS:
        raise invalid("invalid channel: must be official, community or private")
    return dataclasses.replace(
        base,
        name=text(body, "name", low=1, high=255),
        readme=text(body, "readme", high=102_400),
        type=text(body, "type", high=63, default="instance"),
        channel=channel,
        image=text(body, "image", low=1, high=500),
        image_auth=text(body, "imageAuth", high=255),
        start_command=text(body, "startCommand", high=2047),
        entrypoint=text(body, "entrypoint", high=2047),
        rootfs_gb=whole(body, "rootfsSize", low=1, high=6144, default=60),
        ports=_ports(body),
        envs=create_request.envs(body),
        tools=tuple(
            (text(tool, "name", low=1, high=255), Port(port=whole(tool, "port", low=1, high=65_535), type="http"))
            for tool in objects(body, "tools", 100)
        ),
        min_cuda=text(body, "minCudaVersion", high=63),
    )


def _ports(body: Body) -> tuple[Port, ...]:
    found: list[Port] = []
    for group in objects(body, "ports", 100):
        numbers = group.get("ports")
        if not isinstance(numbers, list) or len(numbers) > _MOST_PORTS_PER_TYPE:
            raise invalid(f"invalid ports: at most {_MOST_PORTS_PER_TYPE} numbers per type")
        kind = text(group, "type", high=63)
        found.extend(
            create_request.port(whole({"port": number}, "port", low=0, high=2**31), kind) for number in numbers
        )
    return tuple(found)


ROUTES = (
    Route("products", "GET", f"{_BASE}/products", products),
    Route("cpu_products", "GET", f"{_BASE}/cpu/products", cpu_products),
    Route("clusters", "GET", f"{_BASE}/clusters", clusters),
    Route("templates", "GET", f"{_BASE}/templates", templates),
    Route("template", "GET", f"{_BASE}/template", template),
    Route("template_create", "POST", f"{_BASE}/template/create", template_create),
    Route("template_update", "POST", f"{_BASE}/template/update", template_update),
    Route("template_delete", "POST", f"{_BASE}/template/delete", template_delete),
)
