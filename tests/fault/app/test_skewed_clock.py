"""A worker with a clock an hour ahead: it reports that, and works by the database's clock."""

from __future__ import annotations

from pathlib import Path

from support.clock.waiting import until
from support.processes.process import quicken, serving

from corral.store.server.target import DatabaseTarget

REQUEST = {"name": "punctual", "productName": "RTX 4090 24GB", "templateId": "107672"}


async def test_a_worker_an_hour_ahead_fails_no_create(target: DatabaseTarget, short_dir: Path) -> None:
    """Every create was past its deadline of 20 minutes the moment that worker looked at it."""
    data_dir = short_dir / "skewed"
    url = f"postgresql://{target.user}@/{target.database}?host={target.host}"
    async with (
        serving(data_dir, "--role=api", DATABASE_URL=url) as api,
        serving(data_dir, "--role=worker", DATABASE_URL=url, ahead="3600") as worker,
    ):
        await quicken(data_dir)
        created = (await api.ask("POST", "/api/instances", json=REQUEST)).json["instanceId"]

        async def shown() -> str:
            return str((await api.ask("GET", f"/api/instances/{created}")).json["status"])

        async def has_settled() -> bool:
            return await shown() in {"ready", "failed"}

        await until(has_settled, what="the end of the create")
        status = await shown()
        reported = (await worker.ask("GET", "/health")).json["dependencies"]["database"]

    assert status == "ready"
    assert 3590 < reported["clockAheadSeconds"] < 3610
    assert any("clock.corrected" in line for line in worker.lines)
