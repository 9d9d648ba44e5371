"""The owner of an instance: the name of the key that created it."""

from __future__ import annotations

from datetime import UTC, datetime

from support.http.served_api import CREATE_BODY, ServedApi
from support.http.served_api_with_provider import staged

from corral.domain.access import Access
from corral.engine.auth.api_keys import create_key
from corral.store.session.database import Database

NOW = datetime(2030, 1, 1, tzinfo=UTC)


async def key_of(database: Database, name: str) -> dict[str, str]:
    """The header of a caller with a new key of that name."""
    _, text = await create_key(database, name=name, access=Access.OPERATOR, now=NOW)
    return {"x-api-key": text}


async def created(api: ServedApi, headers: dict[str, str]) -> str:
    answer = await api.service.ask("POST", "/api/instances", json=CREATE_BODY, headers=headers)
    made: str = answer.json["instanceId"]
    return made


async def test_every_view_names_the_key_that_created_it(api: ServedApi, database: Database) -> None:
    """Without a key, on this machine, that is `local`."""
    olgas, ours = await created(api, await key_of(database, "olga")), await created(api, {})

    for path in ("/api/instances", "/api/instances?fields=summary", "/api/instances/comprehensive"):
        listed = (await api.get(path)).json["instances"]
        assert {one["id"]: one["createdBy"] for one in listed} == {olgas: "olga", ours: "local"}, path
    assert (await api.get(f"/api/instances/{olgas}")).json["createdBy"] == "olga"


async def test_a_list_can_be_filtered_by_owner(api: ServedApi, database: Database) -> None:
    """With the total of the filter, and page by page."""
    olga = await key_of(database, "olga")
    olgas = [await created(api, olga) for _ in range(2)]
    await created(api, {})

    first = (await api.get("/api/instances?owner=olga&limit=1")).json
    rest = (await api.get(f"/api/instances?owner=olga&after={first['instances'][0]['id']}")).json

    assert {one["id"] for page in (first, rest) for one in page["instances"]} == set(olgas)
    assert (first["total"], rest["total"]) == (2, 2)
    assert (await api.get("/api/instances?owner=nadia")).json["instances"] == []


async def test_what_an_earlier_release_created_has_no_known_owner(api: ServedApi, database: Database) -> None:
    """And what one writes again, during an upgrade, keeps its owner: it knows the record, but not the column."""
    old, new = await created(api, {}), await created(api, {})
    async with database.connection() as connection:
        await connection.execute("UPDATE corral_instances SET created_by = NULL WHERE id = $1", old)
        await connection.execute("UPDATE corral_instances SET record = record - 'created_by'")
    api.service.parts.answers.forget()

    listed = (await api.get("/api/instances")).json["instances"]

    assert {one["id"]: one["createdBy"] for one in listed} == {old: None, new: "local"}


async def test_an_adopted_instance_is_its_adopters(database: Database) -> None:
    """No matter who made it at the provider."""
    async with staged(database) as served:
        theirs, headers = await served.foreign("lab"), await key_of(database, "olga")
        found = await served.api.service.ask("POST", f"/api/instances/{theirs}/adopt", json={}, headers=headers)

    assert (found.status, found.json["createdBy"]) == (201, "olga")
