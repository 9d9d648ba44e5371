"""The nginx configuration of the page about TLS, run by nginx in front of a real service."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from support.clock.waiting import until
from support.http.servers import unused_port
from support.processes.process import quicken, run, serving
from support.suite import pages
from support.suite.nginx import found_nginx

NAME = "corral.example"
ORDER = {"name": "through-nginx", "productName": "RTX 4090 24GB", "templateId": "107672"}


@dataclass
class Recorder:
    """Passes bytes on to the service, and keeps what was asked."""

    port: int
    target: int
    heads: list[str] = field(default_factory=list)

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        back, forth = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(self._copy(reader, forth, record=True), self._copy(back, writer, record=False))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, record: bool) -> None:
        try:
            while data := await source.read(65536):
                if record:
                    self.heads.append(data.decode("latin-1").lower())
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()


@asynccontextmanager
async def recording(target: int) -> AsyncGenerator[Recorder]:
    recorder = Recorder(port=0, target=target)
    server = await asyncio.start_server(recorder.relay, "127.0.0.1", 0)
    recorder.port = server.sockets[0].getsockname()[1]
    try:
        yield recorder
    finally:
        server.close()


@asynccontextmanager
async def proxied(nginx: str, home: Path, upstream: int) -> AsyncGenerator[int]:
    """*nginx* with the configuration of the page, but for ports and certificate; the port that it serves TLS on."""
    home.mkdir(parents=True)
    plain, secure = unused_port(), unused_port()
    _make_certificate(home)
    site, below = pages.blocks("docs/how-to/tls.md", "nginx")
    site = site.rstrip().removesuffix("}") + below + "}\n"
    for old, new in (
        ("127.0.0.1:3000", f"127.0.0.1:{upstream}"),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{secure} ssl;"),
        (f"/etc/letsencrypt/live/{NAME}/fullchain.pem", str(home / "cert.pem")),
        (f"/etc/letsencrypt/live/{NAME}/privkey.pem", str(home / "key.pem")),
    ):
        assert site.count(old) == 1, old
        site = site.replace(old, new)
    kept = "".join(f"{kind}_temp_path {home}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (home / "nginx.conf").write_text(
        f"daemon off; pid {home}/pid; error_log {home}/error.log; worker_processes 1; events {{}}\n"
        f"http {{ access_log off; {kept}\n{site} }}\n"
    )
    process = await asyncio.create_subprocess_exec(
        nginx, "-p", home, "-c", home / "nginx.conf", "-e", home / "error.log"
    )
    try:
        await until(lambda: _listens(secure))
        yield secure
    finally:
        process.terminate()
        await process.wait()


def _make_certificate(home: Path) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={NAME}"),
            *("-addext", f"subjectAltName=DNS:{NAME}", "-keyout", home / "key.pem", "-out", home / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.mark.timeout(300)
async def test_nginx_serves_corral_as_the_page_says(short_dir: Path, tmp_path: Path) -> None:
    """A key is needed, Host keeps its port, events are not held back, and a path prefix works."""
    home = short_dir / "tls"
    home.mkdir()
    nginx = found_nginx(tmp_path)
    key = (await run("keys", "create", "ops", "--role", "admin", cwd=home))[1].strip()
    with_key = {"Authorization": f"Bearer {key}"}
    async with (
        serving(home / ".corral") as corral,
        recording(int(corral.address.rsplit(":", 1)[1])) as recorder,
        proxied(nginx, home / "nginx", recorder.port) as port,
    ):
        await quicken(home / ".corral")
        trusted = ssl.create_default_context(cafile=str(home / "nginx/cert.pem"))
        connector = aiohttp.TCPConnector(ssl=trusted, resolver=_ToLoopback())
        async with aiohttp.ClientSession(f"https://{NAME}:{port}", connector=connector) as client:
            async with client.get("/api/instances") as refused:
                assert refused.status == 401
            host = re.search(r"^host: (.*?)\r$", recorder.heads[-1], re.MULTILINE)
            assert host is not None
            assert host[1] == f"{NAME}:{port}"

            async with client.get("/api/events/stream", headers=with_key) as stream:
                async with client.post("/api/instances", headers=with_key, json=ORDER) as made:
                    assert made.status == 201, await made.text()
                async with asyncio.timeout(60):
                    line = await _first_data(stream)
                assert line["data"]["name"] == "through-nginx"

            for path in ("/corral/health/ready", "/corral/docs", "/corral/"):
                async with client.get(path) as below:
                    assert below.status == 200, path


async def _first_data(stream: aiohttp.ClientResponse) -> dict[str, dict[str, str]]:
    async for line in stream.content:
        if line.startswith(b"data:"):
            found: dict[str, dict[str, str]] = json.loads(line.removeprefix(b"data:"))
            return found
    raise AssertionError("the stream ended")


class _ToLoopback(aiohttp.abc.AbstractResolver):
    """Resolves every name to this machine."""

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[aiohttp.abc.ResolveResult]:
        del family
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": 2, "proto": 0, "flags": 0}]

    async def close(self) -> None:
        """Nothing to close."""
