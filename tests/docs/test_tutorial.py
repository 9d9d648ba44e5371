"""The tutorial is true: its commands are run in their order, and end as it says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from support.process import CORRAL, clean_environment, quicken, serving
from support.waiting import until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


async def test_the_tutorial_runs_from_its_first_command_to_its_last(short_dir: Path) -> None:
    """As a newcomer types them, on another port."""
    data_dir = short_dir / "tutorial" / ".corral"
    async with serving(data_dir) as corral:
        await quicken(data_dir)
        await until(corral.is_ready)
        said = []
        for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL):
            script = re.sub(r"^(corral [^|\n]+?)( \|\||$)", rf"\1 --url {corral.address}\2", block, flags=re.MULTILINE)
            shell = await asyncio.create_subprocess_exec(
                *("sh", "-ec", script.replace("$PWD/.venv/bin", str(CORRAL.parent))),
                cwd=data_dir.parent,
                env=clean_environment(PATH=f"{CORRAL.parent}:/usr/bin:/bin"),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await shell.communicate()
            said.append(output.decode())
            assert shell.returncode == 0, output.decode()

    doctor, plan, created, rested, failed, gone = said
    assert doctor.count(" ok ") == 6
    assert re.search(r"^1 +CN-HK-01 +4090\.16c62g\.os +\$0\.18/h$", plan, re.MULTILINE)
    assert re.search(r"^status +ready$", created, re.MULTILINE)
    assert re.search(r"^ssh -p \d+ root@127\.0\.0\.1$", created, re.MULTILINE)
    assert ("is exited\n" in rested, "is ready\n" in rested) == (True, True)
    assert "exit code 5" in failed
    for promised in re.findall(r"^(?:because|you can) .*?(?= …)", PAGE, flags=re.MULTILINE):
        assert promised in failed
    assert gone.count(" is gone\n") == 2


def test_its_links_lead_somewhere() -> None:
    """Every relative link names a file."""
    links = re.findall(r"\]\(((?!https?://)[^)#]+)", PAGE)

    assert links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
