"""A secret of a create is on the machine and nowhere else: not in files, tables, exports, logs or responses."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest
from support.clock.waiting import until
from support.engines.outbox import SECRET
from support.http.receiver import Receiver
from support.processes.process import Running, quicken, run, serving

from corral.base.clock import SystemClock
from corral.store.server.embedded import EmbeddedServer

PLAIN: dict[str, Any] = {"name": "trainer", "productName": "RTX 4090 24GB", "templateId": "107672"}
NOT_OURS = ("simulator", "secret.key")
"""In the data directory: what the provider knows, and the key."""
ENDLESS = "/api/events/stream"


def value() -> str:
    return f"plain-{secrets.token_hex(12)}"


class Search:
    """Everything that was looked through, and what a value was found in."""

    def __init__(self, values: list[str]) -> None:
        raw = [each.encode() for each in values]
        every = [form for each in raw for form in (each, each.hex().encode(), base64.b64encode(each)[:-4])]
        self._wanted = re.compile(b"|".join(map(re.escape, every)))
        self.looked = 0
        self.found: set[str] = set()

    def look(self, place: str, content: bytes) -> None:
        self.looked += 1
        if self._wanted.search(content):
            self.found.add(place)


async def refused(corral: Running, values: Iterator[str]) -> None:
    """Requests that carry a secret and fail: by another field, by the secret itself, as JSON, and at the provider."""
    wrong: list[tuple[Any, int]] = [
        ({**PLAIN, "gpuNum": 99, "secrets": {"TOKEN": next(values)}}, 400),
        ({**PLAIN, "secrets": {"TOKEN": [next(values)]}}, 400),
        ({**PLAIN, "secrets": next(values)}, 400),
        ({**PLAIN, "secrets": {"TOKEN": next(values)}, "env": {"TOKEN": "x"}}, 400),
        ({**PLAIN, "templateId": "1", "secrets": {"TOKEN": next(values)}}, 404),
    ]
    bodies = [(json.dumps(body), status) for body, status in wrong]
    bodies.append((f'{{"secrets": {{"TOKEN": "{next(values)}"', 400))
    for number, (body, status) in enumerate(bodies):
        headers = {"content-type": "application/json", "Idempotency-Key": f"refused-{number}"}
        answer = await corral.ask("POST", "/api/instances", data=body, headers=headers)
        assert answer.status == status, answer


async def create(corral: Running, secret: str, **fields: object) -> str:
    """Create an instance, and repeat the request with its key; returns the id."""
    body, headers = {**PLAIN, "secrets": {"TOKEN": secret}, **fields}, {"Idempotency-Key": secret[-6:]}
    first, again = [await corral.ask("POST", "/api/instances", json=body, headers=headers) for _ in range(2)]
    assert (first.status, again.status, again.json) == (201, 201, first.json)
    made: str = first.json["instanceId"]
    return made


async def look_at_responses(search: Search, corral: Running, instance_id: str) -> None:
    """Every GET route that the service documents, with the ids that it lists."""
    document = (await corral.ask("GET", "/schema/openapi.json")).json
    ids = {"instance_id": instance_id, "template_id": "107672", "name": "products", "budget_name": "day"}
    ids["operation_id"] = (await corral.ask("GET", f"/api/instances/{instance_id}")).json["operation"]["operationId"]
    ids["job_id"] = (await corral.ask("GET", "/api/jobs")).json["jobs"][0]["id"]
    routes = [path for path, methods in document["paths"].items() if "get" in methods]
    for route in routes:
        path = route.format(**ids)
        if route == ENDLESS:
            async with (
                aiohttp.ClientSession() as client,
                client.get(f"{corral.address}{path}", headers={"Last-Event-ID": "0"}) as stream,
            ):
                search.look(route, await stream.content.readuntil(b"instance.ready"))
            continue
        answer = await corral.ask("GET", path)
        assert answer.status in {200, 400, 404, 409, 502}, (route, answer)
        search.look(route, answer.body)
    assert len(routes) > 30


async def look_at_rest(search: Search, corral: Running, data_dir: Path, receiver: Receiver) -> None:
    """Files, tables, an export, logs and webhooks."""
    target = EmbeddedServer(data_dir, SystemClock()).running()
    assert target is not None
    connection = await asyncpg.connect(**target.arguments())
    await connection.execute("CHECKPOINT")
    tables = await connection.fetch(
        "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname <> 'pg_catalog'"
    )
    for table in tables:
        rows = await connection.fetch(f"SELECT t::text AS row FROM {table['name']} AS t")  # noqa: S608
        search.look(f"table {table['name']}", "\n".join(row["row"] for row in rows).encode())
    await connection.close()
    files = [
        path for path in data_dir.rglob("*") if path.is_file() and path.relative_to(data_dir).parts[0] not in NOT_OURS
    ]
    assert len(files) > 100
    for path in files:
        search.look(f"file {path.relative_to(data_dir).parts[0]}", path.read_bytes())
    code, exported, said = await run("export", "-", cwd=data_dir.parent, CORRAL_DATA_DIR=str(data_dir))
    assert code == 0, said
    assert '"kind":"secret"' in exported
    search.look("export", f"{exported}{said}".encode())
    search.look("log", "".join(corral.lines).encode())
    search.look("webhooks", b"".join(message.body for message in receiver.messages))


@pytest.mark.timeout(120)
async def test_no_value_of_a_secret_is_anywhere(short_dir: Path) -> None:
    """
    Of a create that succeeded, of one that waits, and of requests that were refused.

    The search is tried with a secret stored in plain text, as a mistake in the store would: it must find that.
    """
    data_dir = short_dir / "nowhere"
    values = [value() for _ in range(8)]
    rest = iter(values)
    settings = {"LOG_LEVEL": "debug", "WEBHOOK_SECRET": SECRET, "CORRAL_WEBHOOK_ALLOW_PRIVATE": "true"}
    async with Receiver().serving() as receiver, serving(data_dir, **settings) as corral:
        await quicken(data_dir)
        made = await create(corral, next(rest), webhookUrl=receiver.url)
        await until(lambda: _is_ready(corral, made))
        assert (await corral.ask("POST", "/api/jobs/pause")).status == 200
        await until(lambda: _is_paused(corral))
        waiting = await create(corral, next(rest), webhookUrl=receiver.url)
        await refused(corral, rest)
        await until(lambda: _has_ready(receiver))

        search = Search(values)
        await look_at_responses(search, corral, made)
        await look_at_rest(search, corral, data_dir, receiver)
        assert search.found == set()
        assert values[0] in _simulated(data_dir), "the machine has its secret"

        await _store_plain(data_dir, waiting, values[1])
        search = Search(values)
        await look_at_rest(search, corral, data_dir, receiver)
        assert search.found == {"file postgres", "table public.corral_secrets", "export"}


async def _is_ready(corral: Running, instance_id: str) -> bool:
    return bool((await corral.ask("GET", f"/api/instances/{instance_id}")).json["status"] == "ready")


async def _is_paused(corral: Running) -> bool:
    return bool((await corral.ask("GET", "/health")).json["dependencies"]["jobQueue"]["paused"])


async def _has_ready(receiver: Receiver) -> bool:
    return "ready" in receiver.events


def _simulated(data_dir: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in (data_dir / "simulator").rglob("*") if path.is_file())


async def _store_plain(data_dir: Path, instance_id: str, secret: str) -> None:
    target = EmbeddedServer(data_dir, SystemClock()).running()
    assert target is not None
    connection = await asyncpg.connect(**target.arguments())
    await connection.execute(
        "UPDATE corral_secrets SET content = $2 WHERE instance_id = $1", instance_id, secret.encode()
    )
    await connection.close()
