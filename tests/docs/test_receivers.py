"""The receivers of docs/how-to/webhooks.md take what is ours, and nothing else."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from support.clock.waiting import until
from support.http.servers import unused_port
from support.processes.process import clean_environment
from support.suite import pages

from corral.base.clock import SystemClock
from corral.webhooks.sign import headers as signed
from corral.webhooks.sign import signing_key

PAGE = "docs/how-to/webhooks.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"seq":17,"event":"instance.ready","instanceId":"inst_ä","status":"ready"}'.encode()
FETCHED_WITHIN_SECONDS = 60


def message(secret: str = SECRET, *, age: timedelta = timedelta(0), body: bytes = BODY) -> Mapping[str, str]:
    """The headers that Corral sends with *body*."""
    return signed(body, message_id="evt_1", sent_at=SystemClock().now() - age, key=signing_key(secret))


FORGERIES: dict[str, tuple[Mapping[str, str], bytes]] = {
    "of another secret": (message("whsec_" + "A" * 32), BODY),
    "with another body": (message(), BODY.replace(b"ready", b"READY")),
    "from an hour ago": (message(age=timedelta(hours=1)), BODY),
    "with another id": ({**message(), "webhook-id": "evt_2"}, BODY),
}


@pytest.mark.parametrize("secret", [SECRET, "a secret in plain words"])
def test_the_python_function_takes_what_is_ours_only(secret: str) -> None:
    _, by_hand = pages.blocks(PAGE, "python")
    program: dict[str, Any] = {}
    exec(by_hand, program)  # noqa: S102  # our own page
    verify: Callable[[str, Mapping[str, str], bytes], None] = program["verify"]

    verify(secret, message(secret), BODY)
    for what, (headers, body) in FORGERIES.items():
        with pytest.raises(ValueError, match=r"not signed|too old"):
            verify(SECRET, headers, body)
            pytest.fail(f"took a message {what}")


async def test_the_python_receiver_takes_what_is_ours_only(tmp_path: Path) -> None:
    program = tmp_path / "receive.py"
    program.write_text(pages.blocks(PAGE, "python")[0])

    await _prove([sys.executable, str(program)], tmp_path)


@pytest.mark.parametrize("secret", [SECRET, "a secret in plain words"])
def test_the_node_function_takes_what_is_ours_only(tmp_path: Path, secret: str) -> None:
    _, by_hand = pages.blocks(PAGE, "js")
    cases = {"ours": (message(secret), BODY), **FORGERIES}
    reported = [
        {"what": what, "secret": secret if what == "ours" else SECRET, "headers": headers, "body": body.decode()}
        for what, (headers, body) in cases.items()
    ]
    (tmp_path / "cases.json").write_bytes(msgspec.json.encode(reported))
    (tmp_path / "verify.mjs").write_text(by_hand)
    (tmp_path / "main.mjs").write_text(
        'import { readFileSync } from "node:fs";\n'
        'import { verify } from "./verify.mjs";\n'
        'for (const c of JSON.parse(readFileSync("cases.json", "utf8"))) {\n'
        '  let taken = "taken";\n'
        '  try { verify(c.secret, c.headers, Buffer.from(c.body, "utf8")); } catch (error) { taken = error.message; }\n'
        "  console.log(`${c.what}: ${taken}`);\n"
        "}\n"
    )
    done = subprocess.run([_node(), "main.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == [
        "ours: taken",
        "of another secret: not signed by us",
        "with another body: not signed by us",
        "from an hour ago: too old, or from the future",
        "with another id: not signed by us",
    ]


async def test_the_node_receiver_takes_what_is_ours_only(tmp_path: Path) -> None:
    """With the official library, which is fetched for it; where that cannot be, the others are proved all the same."""
    node = _node()
    (tmp_path / "receive.mjs").write_text(pages.blocks(PAGE, "js")[0])
    _fetch("standardwebhooks", tmp_path)

    await _prove([node, "receive.mjs"], tmp_path)


async def _prove(command: list[str], cwd: Path) -> None:
    """Send a receiver our message twice, then forgeries."""
    async with _receiving(command, cwd) as (address, printed), aiohttp.ClientSession() as client:

        async def sent(headers: Mapping[str, str], body: bytes) -> int:
            given = {**headers, "content-type": "application/json"}
            async with client.post(address, data=body, headers=given) as answer:
                return answer.status

        assert [await sent(message(), BODY) for _ in range(2)] == [204, 204]
        assert {what: await sent(*forged) for what, forged in FORGERIES.items()} == dict.fromkeys(FORGERIES, 400)
        await until(lambda: printed, what="the receiver printing the event")
    assert printed == ["17 instance.ready inst_ä ready"]


@asynccontextmanager
async def _receiving(command: list[str], cwd: Path) -> AsyncGenerator[tuple[str, list[str]]]:
    """A receiver at work: its address, and the lines it prints; all of them once this ends."""
    port = unused_port()
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=clean_environment(WEBHOOK_SECRET=SECRET, PORT=str(port), PYTHONUTF8="1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    printed: list[str] = []
    assert process.stdout is not None
    reading = asyncio.create_task(_read(process.stdout, printed))
    try:
        await until(lambda: _listens(port) or process.returncode is not None, what="the receiver listening")
        yield f"http://127.0.0.1:{port}/", printed
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await reading


async def _read(stream: asyncio.StreamReader, lines: list[str]) -> None:
    while line := await stream.readline():
        lines.append(line.decode().rstrip("\n"))


def _listens(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


def _node() -> str:
    return shutil.which("node") or pytest.skip("node is not on PATH: the receivers in Node are not proved here")


def _fetch(package: str, cwd: Path) -> None:
    npm = shutil.which("npm") or pytest.skip(
        "npm is not on PATH: the receiver with the Node library is not proved here"
    )
    command = [npm, "install", "--no-audit", "--no-fund", "--fetch-retries=0", "--fetch-timeout=15000", package]
    try:
        subprocess.run(command, cwd=cwd, capture_output=True, check=True, timeout=FETCHED_WITHIN_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip(f"{package} cannot be fetched: its receiver in Node is not proved here")
