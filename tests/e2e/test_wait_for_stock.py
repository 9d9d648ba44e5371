"""`corral create --until-available` when the service is restarted during the wait."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from support.http.servers import unused_port
from support.processes.process import Running, quicken, run, serving
from support.processes.terminal import on_terminal

CLUSTERS: Final = ("as-sgp-2", "us-dallas-1", "sa-brazil-1")
LATER: Final = "120"
"""Seconds by which the second service's clock is ahead, so that the next try is due when it starts."""


async def set_stock(corral: Running, data_dir: Path, gpus: int) -> None:
    """Set the stock of the product everywhere, and have the service read it."""
    simulator = (data_dir / "simulator" / "address").read_text().strip()
    async with aiohttp.ClientSession() as client:
        for cluster in CLUSTERS:
            stock = {"productId": "A100-80GB.14c240g", "clusterId": cluster, "gpus": gpus}
            async with client.post(f"{simulator}/_sim/stock", json=stock) as response:
                assert response.status == 200, await response.text()
    await corral.ask("POST", "/api/cache/clear", json={})


async def test_a_wait_for_stock_survives_a_restart_and_buys_one_machine(short_dir: Path) -> None:
    """The command shows what it waits for, finds the service again, and ends when the machine is ready."""
    data_dir, port = short_dir / "stock" / ".corral", f"--port={unused_port()}"
    order = ("--product", "A100 SXM 80GB", "--template", "150020", "--until-available", "2h")
    async with AsyncExitStack() as terminals:
        async with serving(data_dir, port=port, LOG_LEVEL="warning") as corral:
            await set_stock(corral, data_dir, 0)
            command = on_terminal("create", "patient", *order, "--url", corral.address)
            terminal = await terminals.enter_async_context(command)
            await terminal.shows("waiting for capacity")
        async with serving(data_dir, port=port, ahead=LATER, LOG_LEVEL="warning") as corral:
            await quicken(data_dir)
            await set_stock(corral, data_dir, 8)
            code = await terminal.end()
            listed = await run("ls", "--all", "--json", "--url", corral.address, cwd=short_dir)
            audit = await run("audit", "--json", "--url", corral.address, cwd=short_dir)

    assert code == 0
    assert re.search(r"^status +ready$", terminal.text, re.MULTILINE)
    assert [(i["name"], i["status"]) for i in msgspec.json.decode(listed[1])] == [("patient", "ready")]
    creates = [line for line in msgspec.json.decode(audit[1]) if line["path"] == "/api/instances"]
    assert [line["status"] for line in creates] == [201]
