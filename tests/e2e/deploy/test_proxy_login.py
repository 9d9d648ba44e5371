"""The configuration of nginx with a login, in `deploy/`, run by nginx in front of a real service."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.http.servers import unused_port
from support.processes.process import run, serving
from support.suite import pages
from support.suite.proxies import make_certificate, running_nginx

NAME = "corral.example"
PASSWORD = "pw-of-olga"
ORDER = {"name": "by-olga", "productName": "RTX 4090 24GB", "templateId": "107672"}


def hashed(password: str) -> str:
    """As the command of the page does it."""
    return subprocess.run(["openssl", "passwd", "-apr1", password], check=True, capture_output=True, text=True).stdout


@asynccontextmanager
async def proxied(home: Path, upstream: int) -> AsyncGenerator[tuple[int, int]]:
    """Nginx with that configuration, but for ports and files; the ports for people and for programs."""
    home.mkdir()
    people, programs = unused_port(), unused_port()
    make_certificate(home, NAME)
    (home / "htpasswd").write_text(f"olga:{hashed(PASSWORD)}")
    sites = (pages.ROOT / "deploy/nginx-login.conf").read_text()
    for old, new in (
        ("127.0.0.1:3000", f"127.0.0.1:{upstream}"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{people} ssl;"),
        ("listen 8443 ssl;", f"listen 127.0.0.1:{programs} ssl;"),
        ("/etc/nginx/corral.htpasswd", str(home / "htpasswd")),
        (f"/etc/letsencrypt/live/{NAME}/fullchain.pem", str(home / "cert.pem")),
        (f"/etc/letsencrypt/live/{NAME}/privkey.pem", str(home / "key.pem")),
    ):
        assert old in sites, old
        sites = sites.replace(old, new)
    async with running_nginx(home, sites, programs):
        yield people, programs


async def asked(url: str, *, method: str = "GET", **options: Any) -> tuple[int, dict[str, Any]]:
    """The status and, if it is JSON, the body of one request."""
    async with (
        aiohttp.ClientSession(connector=options.pop("connector", None)) as client,
        client.request(method, url, **options) as answer,
    ):
        is_json = answer.content_type == "application/json"
        return answer.status, await answer.json() if is_json else {}


@pytest.mark.timeout(300)
async def test_nginx_signs_users_in_as_the_page_says(short_dir: Path) -> None:
    """A client names no other user, neither through nginx nor around it, and programs use keys."""
    home = short_dir / "proxy-login"
    home.mkdir()
    key = (await run("keys", "create", "ci", "--role", "admin", cwd=home))[1].strip()
    (given,) = [block for block in pages.blocks("docs/how-to/proxy-login.md", "text") if "AUTH_PROXY_ROLE" in block]
    settings = dict(line.split("=", 1) for line in given.splitlines()) | {"AUTH_PROXY_ROLE": "operator"}
    async with (
        serving(home / ".corral", **settings) as corral,
        proxied(home / "nginx", int(corral.address.rsplit(":", 1)[1])) as (people, programs),
    ):
        trusted = ssl.create_default_context(cafile=str(home / "nginx/cert.pem"))
        olga = {"Authorization": aiohttp.encode_basic_auth("olga", PASSWORD)}
        wrong = {"Authorization": aiohttp.encode_basic_auth("olga", "wrong")}
        site: dict[str, Any] = {"ssl": trusted, "server_hostname": NAME}

        async def ask(port: int, path: str = "/api/whoami", **options: Any) -> tuple[int, dict[str, Any]]:
            return await asked(f"https://127.0.0.1:{port}{path}", **site, **options)

        assert (await ask(people))[0] == 401
        assert (await ask(people, headers={**wrong, "Remote-User": "olga"}))[0] == 401
        for forged in ({}, {"Remote-User": "admin"}, {"REMOTE-USER": "admin"}, {"Remote_User": "admin"}):
            status, caller = await ask(people, headers=olga | forged)
            assert (status, caller["name"], caller["role"], caller["viaProxy"]) == (200, "olga", "operator", True)
        twice = [*olga.items(), ("Remote-User", "admin"), ("Remote-User", "root")]
        assert (await ask(people, headers=twice))[1]["name"] == "olga"

        own = olga | {"Host": f"{NAME}:{people}", "Origin": f"https://{NAME}:{people}"}
        status, made = await ask(people, "/api/instances", method="POST", headers=own, json=ORDER)
        assert status == 201
        path = f"/api/instances/{made['instanceId']}"
        assert (await ask(people, path, headers=olga))[1]["createdBy"] == "olga"
        elsewhere = own | {"Origin": "https://evil.example"}
        assert (await ask(people, path, method="DELETE", headers=elsewhere))[0] == 403

        assert (await ask(programs))[0] == 401
        assert (await ask(programs, headers={"Remote-User": "admin"}))[0] == 401
        with_key = {"Authorization": f"Bearer {key}", "Remote-User": "olga"}
        assert (await ask(programs, headers=with_key))[1]["name"] == "ci"
        assert (await ask(people, headers=olga | {"X-API-Key": key}))[1]["name"] == "ci"

        around = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
        status, refused = await asked(f"{corral.address}/api/whoami", headers={"Remote-User": "olga"}, connector=around)
        assert (status, "name" in refused) == (401, False)
        assert (await asked(f"{corral.address}/api/whoami"))[0] == 401
