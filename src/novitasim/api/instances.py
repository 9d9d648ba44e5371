"""The provider's instance calls: from the body or query to a command, and from the result to its JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from novitasim.api import create_request
from novitasim.api.call import Call, Reply, Route, acted, answer, page
from novitasim.api.create_request import invalid, objects, text, whole
from novitasim.api.refusal import RefusalError
from novitasim.world import commands
from novitasim.world.account import Job
from novitasim.world.instance import Instance, Mount

_BASE = "/gpu-instance/openapi/v1"
_MOST_PORTS = 15
_MOST_MONTHS = 10_000
_MOST_DISK_GB = 6144


def create(call: Call) -> Reply:
    """POST /gpu/instance/create."""
    order = create_request.read(call.body, call.world.settings)
    try:
        instance = commands.create(call.world, order, call.now)
    except RefusalError:
        products = call.world.catalog.products
        if call.world.settings.refused_create == "created" and order.product_id not in products:
            cheapest = min(products.values(), key=lambda product: product.price_e5)
            commands.create(call.world, dataclasses.replace(order, product_id=cheapest.id), call.now)
        raise
    return answer({"id": instance.id}, instance_id=instance.id)


def get(call: Call) -> Reply:
    """GET /gpu/instance."""
    instance = call.world.find(call.query.get("instanceId", ""), call.now)
    return Reply(call.cache.detailed(call.world, instance, call.now, call.endpoints), instance_id=instance.id)


def list_all(call: Call) -> Reply:
    """GET /gpu/instances. Filters are fuzzy on names, exact on the status."""
    settings, query = call.world.settings, call.query
    if settings.list_needs_paging and not ("pageSize" in query and "pageNum" in query):
        raise invalid("invalid pageSize: required")
    part = page(call, base=settings.page_base)
    name, product_name, status = (query.get(key, "") for key in ("name", "productName", "status"))
    name, fits = _name_filter(name, settings.name_filter)
    as_of = call.now - settings.list_age_seconds
    is_distorted = settings.list_shows != "all" or settings.list_age_seconds > 0
    if is_distorted or name or product_name or status:
        known = call.world.distorted(as_of, name) if is_distorted else call.world.listed(name)
        found = [
            item
            for item in known
            if fits(item.order.name) and _matches(call, item, as_of, product_name.lower(), status)
        ]
        shown, total = found[part.first : part.first + part.count], len(found)
    else:
        shown, total = call.world.listed_slice(part.first, part.count)
    prints = (call.cache.listed(call.world, instance, as_of, call.endpoints) for instance in shown)
    return Reply(b'{"instances":[' + b",".join(prints) + b'],"total":%d}' % total)


def _name_filter(name: str, how: str) -> tuple[str, Callable[[str], bool]]:
    """The text that names must contain in any case, and what else they must be."""
    if not name or how == "ignored":
        return "", lambda _found: True
    wanted = name.lower()
    more: dict[str, Callable[[str], bool]] = {
        "contains": lambda _found: True,
        "prefix": lambda found: found.lower().startswith(wanted),
        "exact": lambda found: found.lower() == wanted,
        "nothing": lambda _found: False,
    }
    return name, more[how]


def start(call: Call) -> Reply:
    """POST /gpu/instance/start."""
    instance = commands.start(call.world, call.instance(), call.now)
    return acted(call.world.settings.start_stop_answer, instance, call.now)


def stop(call: Call) -> Reply:
    """POST /gpu/instance/stop."""
    instance = commands.stop(call.world, call.instance(), call.now)
    return acted(call.world.settings.start_stop_answer, instance, call.now)


def restart(call: Call) -> Reply:
    """POST /gpu/instance/restart."""
    return _acted(call, commands.restart(call.world, call.instance(), call.now))


def delete(call: Call) -> Reply:
    """POST /gpu/instance/delete."""
    return _acted(call, commands.delete(call.world, call.instance(), call.now))


def migrate(call: Call) -> Reply:
    """POST /gpu/instance/migrate."""
    before = call.instance()
    after = commands.migrate(call.world, before, call.now)
    if call.world.settings.migrate_answer == "ids":
        return answer({"instanceId": before.id, "newInstanceId": after.id}, instance_id=after.id)
    return acted(call.world.settings.migrate_answer, after, call.now)


def edit(call: Call) -> Reply:
    """POST /gpu/instance/edit; its ports are an array, unlike create's."""
    instance = call.instance()
    items = objects(call.body, "ports", _MOST_PORTS)
    ports = tuple(create_request.port(whole(p, "port", low=0, high=2**31), text(p, "type", high=63)) for p in items)
    more = whole(call.body, "expandRootDisk", low=0, high=_MOST_DISK_GB, default=0)
    given = ports if call.body.get("ports") is not None else None
    return _acted(call, commands.edit(call.world, instance, call.now, ports=given, more_disk_gb=more))


def upgrade(call: Call) -> Reply:
    """POST /gpu/instance/upgrade; whatever is omitted is cleared."""
    instance = call.instance()
    volume = call.body.get("networkVolume")
    mounts = objects(volume, "volumeMounts", 30) if isinstance(volume, dict) else []
    changes = dataclasses.replace(
        instance.order,
        image=text(call.body, "imageUrl", low=1, high=500),
        image_auth_id=text(call.body, "imageAuthId", high=255),
        envs=create_request.envs(call.body),
        command=text(call.body, "command", high=2047),
        entrypoint=text(call.body, "entrypoint", high=2047),
        mounts=tuple(
            Mount(id=text(m, "id", low=1, high=255), path=text(m, "mountPath", low=1, high=4095)) for m in mounts
        ),
    )
    return _acted(call, commands.upgrade(call.world, instance, call.now, changes))


def subscribe(call: Call) -> Reply:
    """POST /gpu/instance/renewInstance and /transToMonthlyInstance: pay by the month."""
    instance = call.instance()
    months = whole(call.body, "month", low=1, high=_MOST_MONTHS)
    changes = dataclasses.replace(instance.order, months=instance.order.months + months, billing_mode="monthly")
    return _acted(call, call.world.put(dataclasses.replace(instance, order=changes), call.now))


def auto_renew(call: Call) -> Reply:
    """POST /gpu/instance/setAutoRenew: checked, and without effect in a world that ends before the month does."""
    ids = call.body.get("instanceIds")
    if not isinstance(ids, list) or not ids or not all(isinstance(item, str) for item in ids):
        raise invalid("invalid instanceIds: must be an array of ids")
    whole(call.body, "autoRenewMonth", low=1, high=12)
    found = [call.world.find(item, call.now) for item in ids]
    return _acted(call, found[0])


def auto_migrate(call: Call) -> Reply:
    """POST /gpu/instance/setAutoMigrate: checked, and without effect, because no simulated host fails."""
    instance = call.instance()
    for name in ("autoMigrateOpen", "autoMigrateSystemDisk"):
        if not isinstance(call.body.get(name, False), bool):
            raise invalid(f"invalid {name}: must be a boolean")
    return _acted(call, instance)


def save_image(call: Call) -> Reply:
    """POST /job/save/image."""
    instance = call.instance()
    image = text(call.body, "image", low=1, high=4095)
    auth_id = text(call.body, "registryAuthId", high=255)
    if auth_id and auth_id not in call.world.auths:
        raise call.world.not_found("registry auth")
    seq = call.world.number()
    done_at = call.now + call.world.settings.job_seconds.draw(call.world.dice(seq, "job"))
    job = Job(
        id=call.world.id_of("job", seq),
        type="saveImage",
        instance_id=instance.id,
        created_at=call.now,
        done_at=done_at,
        image=image,
    )
    call.world.keep("job", call.world.jobs, job)
    return answer({"jobId": job.id}, instance_id=instance.id)


def _acted(call: Call, instance: Instance) -> Reply:
    return acted(call.world.settings.act_answer, instance, call.now)


def _matches(call: Call, instance: Instance, as_of: float, product_name: str, status: str) -> bool:
    how = call.world.settings.status_filter
    if status and how != "ignored" and (how == "nothing" or instance.status(as_of) != status):
        return False
    if not product_name:
        return True
    product = call.world.catalog.products.get(instance.order.product_id)
    return product is not None and product_name in product.name.lower()


ROUTES = (
    Route("create", "POST", f"{_BASE}/gpu/instance/create", create),
    Route("get", "GET", f"{_BASE}/gpu/instance", get),
    Route("list", "GET", f"{_BASE}/gpu/instances", list_all),
    Route("start", "POST", f"{_BASE}/gpu/instance/start", start),
    Route("stop", "POST", f"{_BASE}/gpu/instance/stop", stop),
    Route("restart", "POST", f"{_BASE}/gpu/instance/restart", restart),
    Route("delete", "POST", f"{_BASE}/gpu/instance/delete", delete),
    Route("migrate", "POST", f"{_BASE}/gpu/instance/migrate", migrate),
    Route("edit", "POST", f"{_BASE}/gpu/instance/edit", edit),
    Route("upgrade", "POST", f"{_BASE}/gpu/instance/upgrade", upgrade),
    Route("renew", "POST", f"{_BASE}/gpu/instance/renewInstance", subscribe),
    Route("to_monthly", "POST", f"{_BASE}/gpu/instance/transToMonthlyInstance", subscribe),
    Route("auto_renew", "POST", f"{_BASE}/gpu/instance/setAutoRenew", auto_renew),
    Route("auto_migrate", "POST", f"{_BASE}/gpu/instance/setAutoMigrate", auto_migrate),
    Route("save_image", "POST", f"{_BASE}/job/save/image", save_image),
)
