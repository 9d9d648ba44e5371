"""The proxies that the documents recommend: nginx and Caddy, run with a configuration, and a certificate for them."""

from __future__ import annotations

import asyncio
import functools
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from support.clock.waiting import until
from support.processes.process import clean_environment
from support.suite import debian

PACKAGES: Final = ("nginx", "nginx-core", "nginx-light")
"""Which of them has the program differs between releases of Debian and Ubuntu."""


@asynccontextmanager
async def running_nginx(home: Path, sites: str, port: int) -> AsyncGenerator[None]:
    """Nginx with the servers of *sites*, one of which listens on *port*, until the block ends."""
    nginx = debian.found("nginx", PACKAGES)
    kept = "".join(f"{kind}_temp_path {home}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (home / "nginx.conf").write_text(
        f"daemon off; pid {home}/pid; error_log {home}/error.log; worker_processes 1; events {{}}\n"
        f"http {{ access_log off; {kept}\n{sites} }}\n"
    )
    async with _running(nginx, "-p", home, "-c", home / "nginx.conf", "-e", home / "error.log", port=port):
        yield


@asynccontextmanager
async def running_caddy(home: Path, sites: str, *names: str, plain: int, secure: int) -> AsyncGenerator[None]:
    """
    Caddy with *sites* of these *names*, on these ports of this machine, until the block ends.

    It makes certificates by an authority of its own, whose certificate is then `cert.pem` in *home*; it listens before
    they are made.
    """
    caddy = debian.found("caddy", ("caddy",))
    options = "admin off", f"http_port {plain}", f"https_port {secure}", "default_bind 127.0.0.1", "local_certs"
    storage = "skip_install_trust", f"storage file_system {home}/storage"
    (home / "Caddyfile").write_text("{\n" + "\n".join((*options, *storage)) + "\n}\n" + sites)
    command = ("run", "--config", home / "Caddyfile", "--adapter", "caddyfile")
    async with _running(caddy, *command, port=secure, output=home / "output"):
        authority = home / "storage/pki/authorities/local/root.crt"
        await until(authority.exists)
        (home / "cert.pem").write_bytes(authority.read_bytes())
        trusted = ssl.create_default_context(cafile=str(home / "cert.pem"))
        for name in names:
            await until(functools.partial(_listens, secure, ssl=trusted, server_hostname=name))
        yield


@asynccontextmanager
async def _running(
    program: str, *arguments: str | Path, port: int, output: Path = Path("/dev/null")
) -> AsyncGenerator[None]:
    with output.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            program, *arguments, env=clean_environment(), stdout=sink, stderr=sink
        )
    try:
        await until(lambda: _listens(port))
        yield
    finally:
        process.terminate()
        await process.wait()


def make_certificate(home: Path, *names: str) -> None:
    """A certificate for *names*, as `cert.pem` and `key.pem` in *home*."""
    alternatives = ",".join(f"DNS:{name}" for name in names)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={names[0]}"),
            *("-addext", f"subjectAltName={alternatives}", "-keyout", home / "key.pem", "-out", home / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )


async def _listens(port: int, **options: Any) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    except OSError:
        return False
    writer.close()
    return True
