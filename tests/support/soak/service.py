"""What a soak asks of the service and its database."""

from __future__ import annotations

from collections import Counter
from typing import Any

import asyncpg
import msgspec
from bench.wire import Line

from corral.store.server.target import DatabaseTarget


async def call(line: Line, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    """One request of the service; its status and JSON."""
    try:
        answer = await line.ask(method, path, body)
    except ConnectionError:
        if method != "GET":
            raise
        answer = await line.ask(method, path)  # an idle connection is closed
    return answer.status, msgspec.json.decode(answer.body)


async def all_instances(line: Line) -> list[dict[str, Any]]:
    """Every instance, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        _, page = await call(line, "GET", f"/api/instances?limit=500&offset={len(found)}")
        found += page["instances"]
        if len(found) >= page["total"] or not page["instances"]:
            return found


async def all_events(line: Line) -> list[dict[str, Any]]:
    """The whole log."""
    found: list[dict[str, Any]] = []
    while page := (await call(line, "GET", f"/api/events?limit=500&after={len(found)}"))[1]["events"]:
        found += page
    return found


async def looks(line: Line) -> Counter[str]:
    """How often the account was listed, by how that ended."""
    text = (await line.ask("GET", "/metrics")).body.decode()
    lines = [one for one in text.splitlines() if one.startswith("corral_looks_total{")]
    return Counter({one.split('"')[1]: int(float(one.rsplit(" ", 1)[1])) for one in lines})


async def forget_calls(target: DatabaseTarget) -> None:
    """The provider restarts its count, so the rate limit may too, instead of waiting for a minute."""
    connection = await asyncpg.connect(**target.arguments())
    try:
        await connection.execute("UPDATE corral_provider_budget SET state = NULL")
    finally:
        await connection.close()


async def first_whole_windows(target: DatabaseTarget, quiet_since: float) -> dict[str, float]:
    """
    When the idle time of each instance that is still sampled was first measured to its end, in unix seconds.

    Its machine does what it does since *quiet_since*. As far as measurements are kept, so it may have been earlier.
    """
    connection = await asyncpg.connect(**target.arguments())
    try:
        rows = await connection.fetch(
            "SELECT s.instance_id, extract(epoch FROM min(s.at))::float8 FROM corral_idle_samples AS s"
            " JOIN corral_instances AS i ON i.id = s.instance_id"
            " WHERE s.at >= to_timestamp($1) + (i.lease #>> '{lease,idle,after}')::interval GROUP BY 1",
            quiet_since,
        )
    finally:
        await connection.close()
    return {row[0]: row[1] for row in rows}
