"""Two services on one data directory share a simulator; when its owner is killed, the other one takes it over."""

from __future__ import annotations

import signal
from pathlib import Path

from support.process import Running, serving
from support.waiting import until


async def is_reached(service: Running) -> bool:
    answer = await service.ask("GET", "/api/products?name=RTX+4090+24GB&region=CN-HK-01")
    await service.ask("POST", "/api/cache/clear", json={})
    return answer.status == 200 and bool(answer.json)


async def test_the_simulator_returns_when_its_owner_was_killed(short_dir: Path) -> None:
    """The killed owner left its address behind; the second service waited for ever at a port that nobody served."""
    data_dir = short_dir / "shared"
    async with serving(data_dir) as owner, serving(data_dir) as second:
        assert await is_reached(second)
        before = (data_dir / "simulator" / "address").read_text()
        await owner.end(signal.SIGKILL)

        await until(lambda: is_reached(second), within=40, what="the simulator coming back")
        after = (data_dir / "simulator" / "address").read_text()
        assert second.process.returncode is None

    assert after == before, "addresses handed out stay true"
