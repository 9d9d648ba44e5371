"""`Idempotency-Key`, as callers see it: a repetition does nothing twice, whatever happened to the first try."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from support.clock.waiting import until
from support.http.served_api import CREATE_BODY, ServedApi, opened
from support.http.service import Answer, error_of

from corral.api.http.limits import Limits
from corral.domain.errors import CircuitOpenError
from corral.domain.instance import ProviderId
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.operation import OperationStatus
from corral.store.session.database import Database


async def ask(api: ServedApi, method: str, path: str, body: object = None, key: str = "k") -> Answer:
    return await api.service.ask(method, path, json=body, headers={"Idempotency-Key": key})


async def create(api: ServedApi, key: str = "k", **fields: object) -> Answer:
    return await ask(api, "POST", "/api/instances", {**CREATE_BODY, **fields}, key)


async def at_rest(api: ServedApi, phase: Phase, sighting: Sighting) -> str:
    """An instance that is in *phase*, with nothing under way."""
    instance_id = str((await api.request_create()).json["instanceId"])
    async with api.env.database.transaction() as connection:
        await connection.execute("UPDATE corral_operations SET status = $1", OperationStatus.COMPLETED.value)
    await api.change(instance_id, phase=phase, observation={"sighting": sighting}, provider_id=ProviderId("p-1"))
    return instance_id


def is_replayed(answer: Answer) -> bool:
    return answer.headers.get("idempotent-replayed") == "true"


async def test_the_same_key_and_body_gets_the_first_answer(api: ServedApi) -> None:
    """Byte for byte, with a header that says so; another key makes another instance."""
    first, again, other = await create(api), await create(api), await create(api, "other")

    assert (first.status, again.status, other.status) == (201, 201, 201)
    assert first.body == again.body != other.body
    assert [is_replayed(answer) for answer in (first, again, other)] == [False, True, False]
    assert await api.env.count("corral_instances") == 2


async def test_the_same_key_for_something_else_is_refused(api: ServedApi) -> None:
    """Another body, another query, another method, another path."""
    made = (await create(api)).json["instanceId"]

    error_of(await create(api, name="else"), 409, "IDEMPOTENCY_KEY_REUSED")
    error_of(await ask(api, "POST", "/api/instances?dryRun=true", CREATE_BODY), 409, "IDEMPOTENCY_KEY_REUSED")
    assert (await ask(api, "POST", "/api/instances?dryRun=true", CREATE_BODY, "plan")).status == 200
    error_of(await ask(api, "POST", "/api/instances", CREATE_BODY, "plan"), 409, "IDEMPOTENCY_KEY_REUSED")
    error_of(await ask(api, "DELETE", f"/api/instances/{made}"), 409, "IDEMPOTENCY_KEY_REUSED")
    error_of(await ask(api, "POST", "/api/jobs/cleanup", {}), 409, "IDEMPOTENCY_KEY_REUSED")
    assert await api.env.count("corral_instances") == 1


async def test_many_at_once_with_one_key_make_one_instance(api: ServedApi) -> None:
    """All of them get it, one of them first."""
    answers = await asyncio.gather(*(create(api) for _ in range(40)))

    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert sum(not is_replayed(answer) for answer in answers) == 1
    assert await api.env.count("corral_instances") == 1


async def test_two_bodies_at_once_under_one_key_make_one_instance(api: ServedApi) -> None:
    """The second request gets an error that the key is taken."""
    answers = await asyncio.gather(*(create(api, name=f"n{n}") for n in range(10)))
    won = [answer for answer in answers if answer.status == 201]

    assert len(won) == 1
    for lost in answers:
        if lost is not won[0]:
            error_of(lost, 409, "IDEMPOTENCY_KEY_REUSED")
    assert await api.env.count("corral_instances") == 1


async def test_a_caller_that_never_heard_the_answer_gets_it_later(api: ServedApi) -> None:
    """The answer is stored with the instance, not after it was sent."""
    asking = asyncio.create_task(create(api))
    await until(lambda: api.env.count("corral_instances"))
    asking.cancel()
    again = await create(api)

    assert is_replayed(again)
    assert (await api.get(f"/api/instances/{again.json['instanceId']}")).status == 200
    assert await api.env.count("corral_instances") == 1


async def test_a_failure_of_ours_may_be_tried_again(api: ServedApi) -> None:
    """With the same key, and then it happens."""
    api.env.provider.trouble[None] = CircuitOpenError("the provider is failing")
    error_of(await create(api), 503, "CIRCUIT_BREAKER_OPEN")
    api.env.provider.trouble.clear()
    answer = await create(api)

    assert (answer.status, is_replayed(answer)) == (201, False)


async def test_a_refused_body_may_be_corrected_under_its_key(api: ServedApi) -> None:
    """Nothing was looked at, so nothing is remembered."""
    error_of(await create(api, gpuNum=9), 400, "VALIDATION_ERROR")
    answer = await create(api)

    assert (answer.status, is_replayed(answer)) == (201, False)


async def test_what_was_not_found_is_not_found_again(api: ServedApi) -> None:
    """The first answer, also when it was no."""
    first, again = await create(api, productName="RTX 9090"), await create(api, productName="RTX 9090")

    error_of(first, 404, "PRODUCT_NOT_FOUND")
    assert (again.status, again.body, is_replayed(again)) == (404, first.body, True)


async def test_a_deletion_is_answered_once(api: ServedApi) -> None:
    """And the key of one that does not exist is remembered too."""
    made = (await create(api)).json["instanceId"]
    first, again = [await ask(api, "DELETE", f"/api/instances/{made}", key="d") for _ in range(2)]
    missing = [await ask(api, "DELETE", "/api/instances/inst_x", key="m") for _ in range(2)]

    assert (first.status, again.status, first.body) == (202, 202, again.body)
    assert [is_replayed(answer) for answer in (first, again, *missing)] == [False, True, False, True]


async def test_any_other_post_can_be_repeated_too(api: ServedApi) -> None:
    """With a claim on the key while it is executed."""
    first, again = [await ask(api, "POST", "/api/jobs/cleanup", {"olderThanMs": 0}) for _ in range(2)]

    assert (first.status, first.body, is_replayed(first)) == (200, b'{"removed":0}', False)
    assert (again.status, again.body, is_replayed(again)) == (200, b'{"removed":0}', True)


async def test_a_dry_run_is_answered_once(api: ServedApi) -> None:
    """As every other POST: the second answer is the first, also when prices have changed."""
    first, again = [await ask(api, "POST", "/api/instances?dryRun=true", CREATE_BODY) for _ in range(2)]

    assert (first.status, again.status, first.body) == (200, 200, again.body)
    assert [is_replayed(answer) for answer in (first, again)] == [False, True]
    assert await api.env.count("corral_instances") == 0


@pytest.mark.parametrize("verb", ["stop", "restart", "start", "delete"])
@pytest.mark.parametrize("by_name", [False, True])
async def test_simultaneous_actions_with_one_key_get_one_answer(api: ServedApi, verb: str, *, by_name: bool) -> None:
    """The first is executed, and the others, which it makes impossible, get its answer."""
    phase, sighting = (Phase.EXITED, Sighting.EXITED) if verb == "start" else (Phase.READY, Sighting.RUNNING)
    instance_id = await at_rest(api, phase, sighting)
    path, body = (f"/{verb}", {"instanceName": "trainer"}) if by_name else (f"/{instance_id}/{verb}", None)
    method = "POST" if by_name or verb != "delete" else "DELETE"
    path = f"/{instance_id}" if method == "DELETE" else path
    if by_name and verb == "restart":
        return  # is not offered
    before = await api.env.count("corral_operations")
    answers = await asyncio.gather(*(ask(api, method, f"/api/instances{path}", body) for _ in range(6)))

    assert {answer.status for answer in answers} == {202}, [answer.body for answer in answers]
    assert len({answer.body for answer in answers}) == 1
    assert sum(not is_replayed(answer) for answer in answers) == 1
    assert await api.env.count("corral_operations") == before + 1


@pytest.mark.parametrize("path", ["/api/jobs/cleanup", "/api/cache/clear"])
async def test_simultaneous_posts_of_any_kind_with_one_key_get_one_answer(api: ServedApi, path: str) -> None:
    """Those that come while the first is executed wait for its answer."""
    answers = await asyncio.gather(*(ask(api, "POST", path, {}) for _ in range(6)))

    assert {answer.status for answer in answers} == {200}, [answer.body for answer in answers]
    assert len({answer.body for answer in answers}) == 1
    assert sum(not is_replayed(answer) for answer in answers) == 1


async def test_a_lack_of_stock_is_not_remembered(api: ServedApi) -> None:
    """The same key gets a machine when there is one."""
    error_of(await create(api, maxPrice=0.0001), 404, "NO_OPTIMAL_PRODUCT_ANY_REGION")
    error_of(await create(api, maxPrice=0.0001), 404, "NO_OPTIMAL_PRODUCT_ANY_REGION")

    assert await api.env.count("corral_idempotency") == 0


async def test_a_bad_key_a_bad_query_and_bad_fields_are_reported_together(api: ServedApi) -> None:
    """All of them at once."""
    created = await ask(api, "POST", "/api/instances?dryRun=perhaps", {**CREATE_BODY, "gpuNum": 9}, "\u00e9")
    started = await ask(api, "POST", "/api/instances/inst_x/start", {"targetPort": 0}, "")
    named = await ask(api, "POST", "/api/instances/stop", {"webhookUrl": "ftp://x"}, "")

    def fields(answer: Answer) -> list[str]:
        return [each["field"] for each in error_of(answer, 400, "VALIDATION_ERROR")["validationErrors"]]

    assert fields(created) == ["Idempotency-Key", "dryRun", "gpuNum"]
    assert fields(started) == ["Idempotency-Key", "targetPort"]
    assert fields(named) == ["Idempotency-Key", "instanceName", "webhookUrl"]
    error_of(await ask(api, "DELETE", "/api/instances/inst_x", key=""), 400, "VALIDATION_ERROR")


async def test_a_request_with_a_key_under_execution_gets_retry_after(database: Database) -> None:
    """When that takes long, and until the claim of the executing request is over."""
    async with opened(database, limits=Limits(first_answer_within_seconds=0.2)) as api:
        await _come_back(api)


async def _come_back(api: ServedApi) -> None:
    first = await ask(api, "POST", "/api/jobs/cleanup", {})
    async with api.env.database.connection() as connection:
        await connection.execute(
            "UPDATE corral_idempotency SET status = NULL, body = NULL, claimed_until = $1",
            datetime(2100, 1, 1, tzinfo=UTC),
        )
    error = error_of(await ask(api, "POST", "/api/jobs/cleanup", {}), 409, "OPERATION_IN_PROGRESS")
    async with api.env.database.connection() as connection:
        await connection.execute("UPDATE corral_idempotency SET claimed_until = $1", datetime(2000, 1, 1, tzinfo=UTC))
    after = await ask(api, "POST", "/api/jobs/cleanup", {})

    assert (error["retryable"], error["retryAfter"]) == (True, 1)
    assert (first.status, after.status, is_replayed(after)) == (200, 200, False)


@pytest.mark.parametrize("key", ["", "x" * 256, "kéy", "tab\tbed"])
async def test_a_key_that_is_none_is_refused(api: ServedApi, key: str) -> None:
    """Too short, too long, or not printable."""
    error = error_of(await create(api, key), 400, "VALIDATION_ERROR")

    assert [each["field"] for each in error["validationErrors"]] == ["Idempotency-Key"]
    assert await api.env.count("corral_instances") == 0


@pytest.mark.parametrize("key", ["x", "x" * 255, 'a "quoted" one; with, all: sorts'])
async def test_any_other_key_will_do(api: ServedApi, key: str) -> None:
    """Up to 255 characters."""
    assert [(await create(api, key)).status for _ in range(2)] == [201, 201]
    assert await api.env.count("corral_instances") == 1


async def test_reads_ignore_the_key(api: ServedApi) -> None:
    """They do nothing twice anyway."""
    answers = [await ask(api, "GET", path) for path in ("/api/instances", "/api/jobs")]

    assert [answer.status for answer in answers] == [200, 200]
    assert await api.env.count("corral_idempotency") == 0


async def test_a_key_is_forgotten_after_a_day(api: ServedApi) -> None:
    """The same request then is a new one."""
    first = await create(api)
    async with api.env.database.connection() as connection:
        await connection.execute("UPDATE corral_idempotency SET kept_at = $1", datetime(2000, 1, 1, tzinfo=UTC))
    later = await create(api)

    assert first.json["instanceId"] != later.json["instanceId"]
    assert not is_replayed(later)
