"""The provider's calls on what an account keeps: registry credentials, storages, networks, jobs."""

from __future__ import annotations

import dataclasses

from novitasim.api import wire_catalog
from novitasim.api.call import Call, Reply, Route, answer, page
from novitasim.api.create_request import invalid, text, whole
from novitasim.api.refusal import RefusalError
from novitasim.world.account import Network, RegistryAuth, Storage, StorageSize
from novitasim.world.catalog import Cluster
from novitasim.world.storages import in_use

_BASE = "/gpu-instance/openapi/v1"
_MIN_STORAGE_GB, _MAX_STORAGE_GB = 10, 1_000_000


def auths(call: Call) -> Reply:
    """GET /repository/auths: passwords in clear text, as the provider has it."""
    return answer({"data": [wire_catalog.auth(item) for item in call.world.auths.values()]})


def auth_save(call: Call) -> Reply:
    """POST /repository/auth/save. The response has no id: list to find it."""
    name, username = text(call.body, "name", low=1, high=500), text(call.body, "username", low=1, high=511)
    password = text(call.body, "password", low=1, high=1024)
    seq = call.world.number()
    kept = RegistryAuth(id=call.world.id_of("auth", seq, 8), name=name, username=username, password=password)
    call.world.keep("auth", call.world.auths, kept)
    return Reply(b"", status=204) if call.world.settings.auth_save_answer == "no_content" else answer({})


def auth_delete(call: Call) -> Reply:
    """POST /repository/auth/delete."""
    auth_id = call.id("id")
    if auth_id not in call.world.auths:
        raise call.world.not_found("image auth")
    if any(template.image_auth == auth_id for template in call.world.templates.values()):
        raise RefusalError("IMAGE_AUTH_IN_USE", "image auth is in use")
    call.world.discard("auth", call.world.auths, auth_id)
    return answer({})


def storages(call: Call) -> Reply:
    """GET /networkstorages/list; pages are counted by `pageNo` here."""
    name, storage_id = call.query.get("storageName", "").lower(), call.query.get("storageId", "")
    found = [
        item
        for item in call.world.storages.values()
        if name in item.name.lower() and (not storage_id or storage_id == item.id)
    ]
    part = page(call, base=call.world.settings.storage_page_base, number_name="pageNo")
    shown = [wire_catalog.storage(call.world, item) for item in found[part.first : part.first + part.count]]
    return answer({"data": shown, "total": len(found)})


def storage_create(call: Call) -> Reply:
    """POST /networkstorage/create."""
    cluster = _cluster(call)
    if not cluster.network_storage:
        raise RefusalError("CUR_CLUSTER_NETWORK_STORAGE_NOT_SUPPORT", "cluster does not support network storage")
    name = text(call.body, "storageName", low=1, high=255)
    size = whole(call.body, "storageSize", low=_MIN_STORAGE_GB, high=_MAX_STORAGE_GB)
    seq = call.world.number()
    made = Storage(
        id=call.world.id_of("storage", seq),
        name=name,
        size_gb=size,
        cluster_id=cluster.id,
        sizes=(StorageSize(at=call.now, size_gb=size),),
    )
    call.world.keep("storage", call.world.storages, made)
    bare = call.world.settings.storage_create_answer == "string"
    return answer(made.id if bare else wire_catalog.storage(call.world, made))


def storage_update(call: Call) -> Reply:
    """POST /networkstorage/update; a storage only grows, and its size may be text."""
    known = _storage(call)
    size = whole(call.body, "storageSize", low=_MIN_STORAGE_GB, high=_MAX_STORAGE_GB, default=known.size_gb)
    if size < known.size_gb:
        raise invalid("invalid storageSize: a storage cannot shrink")
    name = text(call.body, "storageName", low=1, high=255, default=known.name)
    call.world.keep("storage", call.world.storages, _resized(known, size, call.now, name=name))
    return answer({})


def storage_delete(call: Call) -> Reply:
    """POST /networkstorage/delete."""
    known = _storage(call)
    if in_use(call.world, known.id, call.now):
        raise RefusalError("NETWORK_STORAGE_IN_USE", "network storage is in use")
    call.world.keep("deleted_storage", call.world.deleted_storages, _resized(known, 0, call.now, name=known.name))
    call.world.discard("storage", call.world.storages, known.id)
    return answer({})


def networks(call: Call) -> Reply:
    """GET /networks; its total is text."""
    name = call.query.get("name", "").lower()
    found = [item for item in call.world.networks.values() if name in item.name.lower()]
    part = page(call, base=call.world.settings.page_base)
    shown = [wire_catalog.network(call.world, item) for item in found[part.first : part.first + part.count]]
    return answer({call.world.settings.networks_key: shown, "total": str(len(found))})


def network(call: Call) -> Reply:
    """GET /network."""
    known = call.world.networks.get(call.query.get("networkId", ""))
    if known is None:
        raise call.world.not_found("network", "NETWORK_NOT_FOUND")
    return answer({"network": wire_catalog.network(call.world, known)})


def network_create(call: Call) -> Reply:
    """POST /network/create."""
    cluster, name = _cluster(call), text(call.body, "name", high=30)
    seq = call.world.number()
    made = Network(
        id=call.world.id_of("network", seq),
        name=name,
        cluster_id=cluster.id,
        segment=f"10.{seq % 256}.0.0/24",
        created_at=call.now,
    )
    call.world.keep("network", call.world.networks, made)
    empty = call.world.settings.network_create_answer == "empty"
    return answer({} if empty else {"network": wire_catalog.network(call.world, made)})


def network_update(call: Call) -> Reply:
    """POST /network/update."""
    known = _network(call)
    renamed = dataclasses.replace(known, name=text(call.body, "name", high=30))
    call.world.keep("network", call.world.networks, renamed)
    return answer({"network": wire_catalog.network(call.world, renamed)})


def network_delete(call: Call) -> Reply:
    """POST /network/delete."""
    known = _network(call)
    living = (instance for instance in call.world.instances.values() if instance.removed_at() > call.now)
    if any(instance.order.network_id == known.id for instance in living):
        raise RefusalError("NETWORK_IN_USE", "network is in use")
    call.world.discard("network", call.world.networks, known.id)
    return answer({})


def jobs(call: Call) -> Reply:
    """GET /jobs."""
    query = call.query
    wanted = {name: query.get(name, "") for name in ("jobId", "state", "type")}
    found = [
        job
        for job in reversed(call.world.jobs.values())
        if (not wanted["jobId"] or job.id == wanted["jobId"])
        and (not wanted["state"] or job.state(call.now) == wanted["state"])
        and (not wanted["type"] or job.type == wanted["type"])
    ]
    part = page(call, base=call.world.settings.page_base)
    shown = [wire_catalog.job(job, call.now) for job in found[part.first : part.first + part.count]]
    return answer({"jobs": shown, "total": len(found)})


def job_break(call: Call) -> Reply:
    """POST /job/break; one client in the wild spells it `job_id`."""
    job_id = text(call.body, "jobId", high=255) or text(call.body, "job_id", high=255)
    job = call.world.jobs.get(job_id)
    if job is None:
        raise call.world.not_found("job", "JOB_NOT_FOUND")
    if job.state(call.now) == "running":
        call.world.keep("job", call.world.jobs, dataclasses.replace(job, broken_at=call.now))
    return answer({"jobId": job.id})


def _cluster(call: Call) -> Cluster:
    cluster = call.world.catalog.clusters.get(text(call.body, "clusterId", low=1, high=255))
    if cluster is None:
        raise invalid("invalid clusterId: cluster not found")
    return cluster


def _storage(call: Call) -> Storage:
    known = call.world.storages.get(call.id("storageId"))
    if known is None:
        raise call.world.not_found("network storage", "NETWORK_STORAGE_NOT_FOUND")
    return known


def _resized(storage: Storage, size_gb: int, now: float, *, name: str) -> Storage:
    """The storage with another size from now on; a seeded one stays without charge."""
    sizes = (*storage.sizes, StorageSize(at=now, size_gb=size_gb)) if storage.sizes else ()
    return dataclasses.replace(storage, name=name, size_gb=size_gb, sizes=sizes)


def _network(call: Call) -> Network:
    known = call.world.networks.get(call.id("networkId"))
    if known is None:
        raise call.world.not_found("network", "NETWORK_NOT_FOUND")
    return known


ROUTES = (
    Route("auths", "GET", f"{_BASE}/repository/auths", auths),
    Route("auth_save", "POST", f"{_BASE}/repository/auth/save", auth_save),
    Route("auth_delete", "POST", f"{_BASE}/repository/auth/delete", auth_delete),
    Route("storages", "GET", f"{_BASE}/networkstorages/list", storages),
    Route("storage_create", "POST", f"{_BASE}/networkstorage/create", storage_create),
    Route("storage_update", "POST", f"{_BASE}/networkstorage/update", storage_update),
    Route("storage_delete", "POST", f"{_BASE}/networkstorage/delete", storage_delete),
    Route("networks", "GET", f"{_BASE}/networks", networks),
    Route("network", "GET", f"{_BASE}/network", network),
    Route("network_create", "POST", f"{_BASE}/network/create", network_create),
    Route("network_update", "POST", f"{_BASE}/network/update", network_update),
    Route("network_delete", "POST", f"{_BASE}/network/delete", network_delete),
    Route("jobs", "GET", f"{_BASE}/jobs", jobs),
    Route("job_break", "POST", f"{_BASE}/job/break", job_break),
)
