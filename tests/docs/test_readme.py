"""The README is true: its commands run, and it is short."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from support.process import serving
from support.waiting import until

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    """Under 150 lines, or nobody reads it."""
    assert len(README.splitlines()) < 150


async def test_its_commands_do_what_it_says(short_dir: Path) -> None:
    """Everything after `make run` is run as it stands there, on another port."""
    first, *commands = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    assert first.strip() == "make run"
    assert "corral serve" in (ROOT / "Makefile").read_text(encoding="utf-8")
    async with serving(short_dir / "readme" / ".corral") as corral:
        said = "".join(corral.lines)
        for promised in re.findall(r"```\n(NOVITA_API_KEY.*?)\n", README):
            assert promised in said
        created, listed = commands
        assert '"status":"creating"' in await _run(created, corral.address)

        async def is_ready() -> bool:
            return '"status":"ready"' in await _run(listed, corral.address)

        await until(is_ready, what="the README's machine being ready")


async def _run(command: str, address: str) -> str:
    process = await asyncio.create_subprocess_shell(
        command.replace("http://127.0.0.1:3000", address), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, command
    return output.decode()
