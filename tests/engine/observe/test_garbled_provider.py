"""The engine while the provider answers nonsense: nothing changes, nothing breaks, and work continues after it."""

from __future__ import annotations

from typing import Any

import pytest
from support.engines.stepped_engine import SteppedEngine, stepped_engine
from support.provider.distortion import ODD, written
from support.provider.garbling import Garble, faithfully, garbling

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

KEPT_FIELDS = ("id", "name", "status")
"""What decides which instance an answer is about, and where it is."""
FOREIGN: list[dict[str, Any]] = [
    {"id": "a\0b", "name": "corral-000000-inst-1-1\0", "status": "run\0ning"},
    {"id": "x" * 5000, "name": "y" * 50_000, "status": "running"},
    {"id": "\u202e\U0001f600", "name": "\u202e", "status": "\U0001f600"},
    {"id": "big", "name": "OURS-inst_gone-1", "status": "running", "gpuNum": 10**30, "clusterId": "c\0"},
    {"id": {"id": 1}, "name": [], "status": {}},
]


async def _readied(engine: SteppedEngine) -> list[InstanceId]:
    """Two that are ready, and stay so when all is well."""
    made = [await engine.request_create() for _ in range(2)]
    for instance in made:
        await engine.until(instance, Phase.READY)
    return made


async def _event_count(engine: SteppedEngine) -> int:
    async with engine.database.connection() as connection:
        count: int = await connection.fetchval("SELECT count(*) FROM corral_events")
        return count


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"<html>502</html>",
        b"null",
        b"{}",
        b"[]",
        b'{"instances":{"0":{}},"total":2}',
        b'{"instances":[1,2],"total":2}',
        b'{"instances":[],"total":1e300}',
        b'{"instances":[{}],"total":-1}',
        b'{"instances":[{"id":"\xff"}],"total":1}',
        b'{"instances":' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"instances":null,"total":"many"}',
    ],
)
async def test_a_garbage_page_changes_no_status(database: Database, target: DatabaseTarget, page: bytes) -> None:
    """No event, no change, and the next valid page is read as usual."""
    async with garbling() as garbler, stepped_engine(database, target, through=garbler) as engine:
        made = await _readied(engine)
        before = await _event_count(engine)
        garbler.garble = lambda what, answer: page if what == "instances" else faithfully(what, answer)
        await engine.steps(3)

        assert garbler.garbled > 0
        assert await _event_count(engine) == before
        assert [(await engine.get(each)).phase for each in made] == [Phase.READY] * 2

        garbler.garble = faithfully
        await engine.until(await engine.request_create(), Phase.READY)


async def test_odd_values_break_neither_listings_nor_reconciling(database: Database, target: DatabaseTarget) -> None:
    """Every field but those that say which instance it is and where; while one is ready, and one on its way."""
    async with garbling() as garbler, stepped_engine(database, target, through=garbler) as engine:
        (ready, _) = await _readied(engine)
        for odd in ODD:
            await engine.request_create()
            garbler.garble = _odd(odd)
            await engine.step(6)

            assert (await engine.get(ready)).phase in {Phase.READY, Phase.FAILED}, odd
        garbler.garble = faithfully
        await engine.until(await engine.request_create(), Phase.READY)


async def test_odd_foreign_instances_are_ignored(database: Database, target: DatabaseTarget) -> None:
    """One instance that cannot be stored, perhaps a foreign one, hides none of ours."""
    async with garbling() as garbler, stepped_engine(database, target, through=garbler) as engine:
        await _readied(engine)
        garbler.garble = _with_strangers(engine.installation)
        await engine.until(await engine.request_create(), Phase.READY)

        assert garbler.garbled > 0


def _odd(odd: Any) -> Garble:
    def garble(what: str, answer: Any) -> bytes:
        if what not in {"instance", "instances"}:
            return faithfully(what, answer)
        if what == "instance":
            return written(_oddly(answer, odd), plain=False)
        return written({**answer, "instances": [_oddly(each, odd) for each in answer["instances"]]}, plain=False)

    return garble


def _oddly(instance: dict[str, Any], odd: Any) -> dict[str, Any]:
    return {key: value if key in KEPT_FIELDS else _filled(value, odd) for key, value in instance.items()}


def _filled(value: Any, odd: Any) -> Any:
    if isinstance(value, dict):
        return {key: _filled(part, odd) for key, part in value.items()}
    return [_filled(part, odd) for part in value] if isinstance(value, list) and value else odd


def _with_strangers(installation: str) -> Garble:
    def garble(what: str, answer: Any) -> bytes:
        if what == "instances":
            odd = [{**each, "name": str(each["name"]).replace("OURS", f"corral-{installation}")} for each in FOREIGN]
            answer = {"instances": [*answer["instances"], *odd], "total": int(answer["total"]) + len(odd)}
        return written(answer, plain=False)

    return garble
