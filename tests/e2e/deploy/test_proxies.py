"""The configurations of nginx and Caddy in `deploy/`, run by those programs in front of a real service."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from support.http.servers import unused_port
from support.processes.process import quicken, run, serving
from support.suite.pages import ROOT
from support.suite.proxies import make_certificate, running_caddy, running_nginx

NAME, SHARED_NAME = "corral.example", "tools.example"
ORDER = {"productName": "RTX 4090 24GB", "templateId": "107672"}


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


@dataclass(frozen=True, kw_only=True)
class Served:
    """A service, and a key for it."""

    recorder: Recorder
    key: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(short_dir: Path) -> AsyncGenerator[Served]:
    home = short_dir / "proxied"
    home.mkdir()
    key = (await run("keys", "create", "ops", "--role", "admin", cwd=home))[1].strip()
    async with serving(home / ".corral") as corral, recording(int(corral.address.rsplit(":", 1)[1])) as recorder:
        await quicken(home / ".corral")
        yield Served(recorder=recorder, key=key)


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """The ports of a running proxy, and the certificate to trust."""

    plain: int
    secure: int
    certificate: Path


@asynccontextmanager
async def nginx(home: Path, upstream: int) -> AsyncGenerator[Proxy]:
    """Nginx with `deploy/nginx.conf`, but for ports and certificates."""
    plain, secure = unused_port(), unused_port()
    make_certificate(home, NAME, SHARED_NAME)
    sites = _replaced(
        "nginx.conf",
        ("127.0.0.1:3000", f"127.0.0.1:{upstream}"),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{secure} ssl;"),
        (f"/etc/letsencrypt/live/{NAME}/fullchain.pem", str(home / "cert.pem")),
        (f"/etc/letsencrypt/live/{NAME}/privkey.pem", str(home / "key.pem")),
        (f"/etc/letsencrypt/live/{SHARED_NAME}/fullchain.pem", str(home / "cert.pem")),
        (f"/etc/letsencrypt/live/{SHARED_NAME}/privkey.pem", str(home / "key.pem")),
    )
    async with running_nginx(home, sites, secure):
        yield Proxy(plain=plain, secure=secure, certificate=home / "cert.pem")


@asynccontextmanager
async def caddy(home: Path, upstream: int) -> AsyncGenerator[Proxy]:
    """Caddy with `deploy/Caddyfile`, but for ports and its certificate authority."""
    plain, secure = unused_port(), unused_port()
    sites = _replaced("Caddyfile", ("127.0.0.1:3000", f"127.0.0.1:{upstream}"))
    async with running_caddy(home, sites, NAME, SHARED_NAME, plain=plain, secure=secure):
        yield Proxy(plain=plain, secure=secure, certificate=home / "cert.pem")


def _replaced(file: str, *changes: tuple[str, str]) -> str:
    text = (ROOT / "deploy" / file).read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.mark.timeout(300)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("started", [nginx, caddy])
async def test_the_proxy_serves_corral_over_tls(
    served: Served, tmp_path: Path, started: Callable[[Path, int], AbstractAsyncContextManager[Proxy]]
) -> None:
    """A key is needed, Host keeps its port, events are not held back; also below a path."""
    with_key = {"Authorization": f"Bearer {served.key}"}
    async with started(tmp_path, served.recorder.port) as proxy:
        trusted = ssl.create_default_context(cafile=str(proxy.certificate))
        connector = aiohttp.TCPConnector(ssl=trusted, resolver=_ToLoopback())
        async with aiohttp.ClientSession(connector=connector) as client:
            async with client.get(f"http://{NAME}:{proxy.plain}/api/instances", allow_redirects=False) as plain:
                assert plain.status in {301, 308}
                assert plain.headers["Location"].startswith(f"https://{NAME}")
            for prefix in (f"https://{NAME}:{proxy.secure}", f"https://{SHARED_NAME}:{proxy.secure}/corral"):
                await _use(client, prefix, with_key, served.recorder)
            async with client.get(f"https://{NAME}:{proxy.secure}/health/ready") as ready:
                assert ready.headers["Strict-Transport-Security"] == "max-age=31536000"
            redirected = f"https://{SHARED_NAME}:{proxy.secure}/corral"
            async with client.get(redirected) as page:
                assert (page.status, str(page.url)) == (200, f"{redirected}/")


async def _use(client: aiohttp.ClientSession, prefix: str, with_key: dict[str, str], recorder: Recorder) -> None:
    """What a caller does at *prefix*: refused without a key, a stream of events, a create, the pages."""
    async with client.get(f"{prefix}/api/instances") as refused:
        assert refused.status == 401
    head = recorder.heads[-1]
    (host,) = re.findall(r"^host: (.*?)\r$", head, re.MULTILINE)
    assert host == prefix.split("/")[2]
    assert re.findall(r"^x-forwarded-for: (.*?)\r$", head, re.MULTILINE) == ["127.0.0.1"]

    name = "at-" + prefix.split("/")[2].replace(":", "-").replace(".", "-")
    async with client.get(f"{prefix}/api/events/stream", headers=with_key) as stream:
        assert stream.status == 200
        async with client.post(f"{prefix}/api/instances", headers=with_key, json={"name": name, **ORDER}) as made:
            assert made.status == 201, await made.text()
        async with asyncio.timeout(60):
            assert name in await _names(stream, until=name)

    for path in ("/health/ready", "/docs"):
        async with client.get(prefix + path) as below:
            assert below.status == 200, path
    async with client.get(f"{prefix}/") as dashboard:
        scripts = re.findall(r'<script[^>]* src="([^"]+)"', await dashboard.text())
    assert scripts
    for script in scripts:
        async with client.get(f"{prefix}/{script}") as found:
            assert (found.status, found.content_type) == (200, "text/javascript"), script


async def _names(stream: aiohttp.ClientResponse, *, until: str) -> list[str]:
    """The instances that events tell of, up to the first event of *until*."""
    found: list[str] = []
    async for line in stream.content:
        if line.startswith(b"data:"):
            found.append(json.loads(line.removeprefix(b"data:"))["data"]["name"])
            if found[-1] == until:
                break
    return found


class _ToLoopback(aiohttp.abc.AbstractResolver):
    """Resolves every name to this machine."""

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[aiohttp.abc.ResolveResult]:
        del family
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": 2, "proto": 0, "flags": 0}]

    async def close(self) -> None:
        """Nothing to close."""
