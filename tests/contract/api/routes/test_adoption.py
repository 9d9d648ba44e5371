"""Adopting foreign instances, as callers see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from support.engines.runtime import INSTALLATION
from support.http.served_api_with_provider import HONG_KONG, ServedApiWithProvider, staged
from support.http.service import Answer, error_of

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Goal
from corral.domain.observation.provider_names import ProviderName, provider_name
from corral.domain.observation.sighting import Sighting
from corral.store.session.database import Database

NOW = "2030-01-01T00:00:00.000Z"


@pytest.fixture
async def served(database: Database) -> AsyncGenerator[ServedApiWithProvider]:
    async with staged(database) as served:
        yield served


async def adopt(served: ServedApiWithProvider, provider_id: str, **body: object) -> Answer:
    return await served.api.service.ask("POST", f"/api/instances/{provider_id}/adopt", json=body)


async def test_a_running_one_is_recorded_with_its_real_facts(served: ServedApiWithProvider) -> None:
    """Product, place, price, ports' owner and goal are what the provider says; nothing is asked of it."""
    theirs = await served.foreign("lab machine #1", gpuNum=2, billingMode="onDemand")
    served.sim.advance(10)
    answer = await adopt(served, theirs)
    found = answer.json
    stored = await served.api.change(found["id"])

    assert answer.status == 201
    assert found["id"].startswith("inst_")
    assert (found["name"], found["status"], found["novitaInstanceId"]) == ("lab-machine-1", "running", theirs)
    assert (found["region"], found["productId"], found["productName"]) == (
        "CN-HK-01",
        "4090.16c62g.os",
        "RTX 4090 24GB",
    )
    assert (found["gpuNum"], found["rootfsSize"], found["billingMode"]) == (2, 60, "onDemand")
    assert found["templateId"] is None
    assert (found["operation"]["kind"], found["operation"]["status"]) == ("create", "completed")
    assert (stored.goal, stored.observation.sighting, stored.create.number) == (Goal.RUNNING, Sighting.RUNNING, 0)
    products = (await served.sim.ask("/products", clusterId=HONG_KONG, billingMethod="onDemand"))[1]["data"]
    (price,) = (int(product["price"]) for product in products if product["id"] == "4090.16c62g.os")
    assert found["price"] == pytest.approx(2 * price / 100_000)
    assert (await served.api.get(f"/api/instances/{theirs}")).json["id"] == found["id"]
    assert set(served.sim.calls()["endpoints"]) <= {"create", "get", "products", "clusters"}
    assert served.sim.calls()["endpoints"]["create"]["total"] == 1


async def test_a_stopped_one_stays_stopped(served: ServedApiWithProvider) -> None:
    """Adopting is no start."""
    theirs = await served.foreign()
    served.sim.advance(10)
    await served.sim.ask("/gpu/instance/stop", {"instanceId": theirs})
    served.sim.advance(10)
    found = (await adopt(served, theirs)).json

    assert found["status"] == "exited"
    assert (await served.api.change(found["id"])).goal is Goal.RUNNING, "no caller asked Corral to keep it stopped"


async def test_it_is_announced_once_and_looked_up(served: ServedApiWithProvider) -> None:
    """The event says how it came to be; a pass takes it from there."""
    theirs = await served.foreign()
    adopted = (await adopt(served, theirs)).json
    again = await adopt(served, theirs, name="another-name")
    async with served.api.env.database.connection() as connection:
        events = await connection.fetch("SELECT type, reason, instance_id FROM corral_events")
        jobs = await connection.fetch("SELECT entrypoint FROM corral_pgqueuer")

    assert again.status == 200
    assert (again.json["id"], again.json["name"]) == (adopted["id"], "foreign-instance")
    assert [tuple(row) for row in events] == [("instance.created", "adopted", adopted["id"])]
    assert [row["entrypoint"] for row in jobs] == ["monitor_instance"]


async def test_two_at_once_make_one_record(served: ServedApiWithProvider) -> None:
    """The second caller gets the first one's instance."""
    theirs = await served.foreign()
    answers = await asyncio.gather(*(adopt(served, theirs) for _ in range(5)))

    assert sorted(answer.status for answer in answers) == [200, 200, 200, 200, 201]
    assert len({answer.json["id"] for answer in answers}) == 1


async def test_what_may_be_said_with_it_is_kept(served: ServedApiWithProvider) -> None:
    """A name, a webhook and a health check."""
    theirs = await served.foreign()
    fields = {"name": "mine", "webhookUrl": "https://8.8.8.8/x", "healthCheck": {"targetPort": 8080}}
    answer = await adopt(served, theirs, **fields)
    assert answer.status == 201, answer
    found = answer.json
    stored = await served.api.change(found["id"])

    assert (stored.request.name, stored.request.webhook_url) == ("mine", "https://8.8.8.8/x")
    assert stored.request.health.target_port == 8080


async def test_all_problems_of_an_adoption_are_reported_at_once(served: ServedApiWithProvider) -> None:
    """As with a create."""
    bad = {"name": "a b", "webhookUrl": "http://127.0.0.1/", "healthCheck": {"timeoutMs": 1}}
    error = error_of(await adopt(served, "p1", **bad), 400, "VALIDATION_ERROR")

    assert sorted(problem["code"] for problem in error["validationErrors"]) == [
        "INVALID_HEALTH_CHECK",
        "INVALID_INSTANCE_NAME",
        "INVALID_WEBHOOK_URL",
    ]


async def test_the_body_may_be_absent(served: ServedApiWithProvider) -> None:
    """There is nothing that must be said."""
    theirs = await served.foreign()
    answer = await served.api.service.ask("POST", f"/api/instances/{theirs}/adopt")

    assert answer.status == 201


async def test_what_the_provider_does_not_have_cannot_be_adopted(served: ServedApiWithProvider) -> None:
    """Nothing is recorded on a guess."""
    error_of(await adopt(served, "nosuchinstance"), 404, "INSTANCE_NOT_FOUND")
    error_of(await adopt(served, "%00"), 404, "INSTANCE_NOT_FOUND")

    assert await served.api.env.count("corral_instances") == 0


async def test_what_is_being_deleted_cannot_be_adopted(served: ServedApiWithProvider) -> None:
    """It would be ours for a moment, and vanish."""
    theirs = await served.foreign()
    await served.sim.ask("/gpu/instance/delete", {"instanceId": theirs})

    error_of(await adopt(served, theirs), 409, "OPERATION_IN_PROGRESS")


async def test_what_a_create_of_ours_made_is_not_adopted_beside_it(served: ServedApiWithProvider) -> None:
    """The engine takes it over, or deletes it as a duplicate; two records of one machine would fight."""
    instance_id = (await served.api.request_create(gpuNum=1)).json["instanceId"]
    name = provider_name(ProviderName(installation=INSTALLATION, instance_id=InstanceId(instance_id), attempt=1))
    error = error_of(await adopt(served, await served.foreign(name)), 409, "OPERATION_IN_PROGRESS")

    assert error["details"] == {"instanceId": instance_id}


async def test_an_unreachable_provider_is_an_error_here(served: ServedApiWithProvider) -> None:
    """Facts cannot be made up."""
    theirs = await served.foreign()
    served.sim.fault("error_500", on="get", count=10)

    assert (await adopt(served, theirs)).status in {502, 504}
    assert await served.api.env.count("corral_instances") == 0


async def test_a_repetition_under_a_key_gets_the_first_answer(served: ServedApiWithProvider) -> None:
    """Also the 201."""
    theirs = await served.foreign()
    path, headers = f"/api/instances/{theirs}/adopt", {"Idempotency-Key": "k"}
    first = await served.api.service.ask("POST", path, json={}, headers=headers)
    second = await served.api.service.ask("POST", path, json={}, headers=headers)

    assert (first.status, second.status) == (201, 201)
    assert second.headers["idempotent-replayed"] == "true"
    assert second.body == first.body


async def test_it_is_merged_in_the_listing_from_then_on(served: ServedApiWithProvider) -> None:
    """By the provider's id: its name is not one of ours."""
    theirs = await served.foreign()
    before = (await served.list())["sources"]
    adopted = (await adopt(served, theirs)).json
    after = await served.list()

    assert before == {"local": 0, "novita": 1, "merged": 0}
    assert after["sources"] == {"local": 0, "novita": 0, "merged": 1}
    assert after["instances"][0]["id"] == adopted["id"]
