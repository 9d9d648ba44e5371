"""A budget, kept by two processes of one installation."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import aiohttp
import asyncpg
import pytest
from support.clock.waiting import until
from support.processes.process import serving

from corral.store.server.target import DatabaseTarget
from novitasim.testing import start_simulator

BUDGET = {"scope": "label:team=vision", "period": "total", "limitUsd": 7 * 0.18}
CREATE = {"productName": "RTX 4090 24GB", "templateId": "107672", "labels": {"team": "vision"}}


@pytest.mark.timeout(300)
async def test_a_hundred_requests_to_two_processes_get_the_seven_that_a_budget_allows(
    server: DatabaseTarget, short_dir: Path
) -> None:
    """While machines begin to run and cost money; deleted, they leave nothing reserved."""
    connection = await asyncpg.connect(**server.arguments())
    await connection.execute("CREATE DATABASE budget_of_two")
    await connection.close()
    url = f"postgresql://{server.user}@/budget_of_two?host={server.host}"
    async with start_simulator(keys=frozenset({"key"})) as sim, aiohttp.ClientSession() as client:
        settings = {"DATABASE_URL": url, "NOVITA_API_KEY": "key", "NOVITA_API_BASE_URL": sim.base_url}
        async with (
            serving(short_dir / "one" / ".corral", **settings) as one,
            serving(short_dir / "two" / ".corral", **settings) as two,
        ):

            async def status(number: int) -> int:
                address = (one, two)[number % 2].address
                body = {**CREATE, "name": f"n{number}"}
                async with client.post(f"{address}/api/instances", json=body) as response:
                    return response.status

            async def budget() -> dict[str, float]:
                async with client.get(f"{two.address}/api/budgets/vision") as response:
                    found: dict[str, float] = await response.json()
                    return found

            async with client.put(f"{one.address}/api/budgets/vision", json=BUDGET) as response:
                assert response.status == 201
            statuses = Counter(await asyncio.gather(*(status(number) for number in range(100))))
            assert statuses == {201: 7, 402: 93}
            found = await budget()
            assert round(found["spent"] + found["reserved"], 6) == 1.26
            async with client.get(f"{two.address}/api/instances?label=team:vision") as response:
                made = [each["id"] for each in (await response.json())["instances"]]
            assert len(made) == 7
            for each in made:
                async with client.delete(f"{one.address}/api/instances/{each}") as response:
                    assert response.status == 202

            async def is_released() -> bool:
                sim.advance(1)
                return (await budget())["reserved"] == 0

            await until(is_released, what="the release")
            assert (await budget())["spent"] < 0.1
