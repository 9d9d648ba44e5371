"""
The programs inside instances: web pages and ssh banners on loopback ports.

Ten thousand instances must not need ten thousand sockets. In the mode `shared` all web ports are paths of one listener,
which acts as the provider's proxy, and all tcp ports are one other listener; a client must append to an endpoint's URL.
In `localhost` the same listener distinguishes workloads by host name (`ID-PORT.localhost`), which is closer to the
provider but not resolved everywhere. `own_port` opens a port per endpoint when it is first shown. `realistic` and
`off` give the provider's own names, which lead nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Coroutine

from aiohttp import encode_basic_auth, web

from novitasim.api.endpoints import SSH, TERMINAL, RealisticEndpoints
from novitasim.api.wire import exposed
from novitasim.faults import injection
from novitasim.server.clock import pause
from novitasim.server.simulator import Simulator
from novitasim.workloads import behaviour, logs
from novitasim.workloads.log_stream import KINDS, LogStream
from novitasim.workloads.sockets import HOST, bound
from novitasim.workloads.ssh import SshPorts
from novitasim.world.instance import Instance, Port
from novitasim.world.timeline import Status

_BANNER = b"SSH-2.0-OpenSSH_9.6 novitasim\r\n"
_HANG_SECONDS = 120.0
_LOOK_SECONDS = 0.05
_LOCALHOST = re.compile(r"([0-9a-z]+(?:r\d+)?)-(\d+)\.localhost(?::\d+)?")
_TOKEN = re.compile(r"([0-9a-f]+)(?:r(\d+))?")


class Workloads:
    """All workloads of one simulator, and their addresses."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._web)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._web_port = 0
        self._tcp_port = 0
        self._closed = socket.socket()
        self._owned: dict[tuple[str, int, int], int] = {}
        self._owners: dict[int, tuple[str, int]] = {}
        self._sites: dict[int, web.SockSite] = {}
        self._servers: dict[int, asyncio.Server] = {}
        self._opening: set[asyncio.Task[int]] = set()
        self._ssh = SshPorts(simulator, self._forwarded)

    async def start(self) -> None:
        """Open the shared listeners."""
        await self._runner.setup()
        ports = self._simulator.world.workload_ports
        self._web_port = await self._listen_web(bound(ports.get("web", 0)))
        self._tcp_port = await self._listen_tcp(bound(ports.get("tcp", 0)))
        self._simulator.remember_ports({"web": self._web_port, "tcp": self._tcp_port})
        # Bound and not listening: connections are refused, and no other program can take the port.
        self._closed.bind((HOST, 0))
        self._ssh.start()

    async def stop(self) -> None:
        """Close everything."""
        await self._ssh.stop()
        for task in self._opening:
            task.cancel()
        for server in self._servers.values():
            server.close()
        self._closed.close()
        await self._runner.cleanup()

    def address(self, instance: Instance, port: Port) -> str:
        """The endpoint of a port, in the mode that the settings choose."""
        settings = self._simulator.world.settings
        if settings.guest_mode in {"realistic", "off"}:
            return RealisticEndpoints(changing=settings.endpoint_changes_on_start).address(instance, port)
        refused = behaviour.workload_of(instance, settings).kind == "refused"
        at = self._closed.getsockname()[1] if refused else None
        if settings.guest_mode == "own_port" and not (port == SSH and self._ssh.is_offered()):
            number = at or self._own(instance, port)
            return f"http://{HOST}:{number}" if port.type == "http" else f"{HOST}:{number}"
        if port.type != "http":
            ssh = self._ssh.port(instance) if port == SSH and self._ssh.is_offered() and not at else None
            return f"{HOST}:{at or ssh or self._tcp_port}"
        token = self._token(instance)
        if settings.guest_mode == "localhost":
            return f"http://{token}-{port.port}.localhost:{at or self._web_port}"
        return f"http://{HOST}:{at or self._web_port}/{token}/{port.port}"

    def ssh_address(self, instance: Instance) -> str:
        """Where ssh is reached; empty if the instance offers none."""
        settings = self._simulator.world.settings
        missing = settings.ssh == "server" and not self._ssh.is_offered()
        return "" if missing or settings.ssh == "none" else self.address(instance, SSH)

    def log_address(self, instance: Instance, kind: str) -> str:
        """Where the logs of an instance stream from."""
        settings = self._simulator.world.settings
        behaviour_name, url = logs.behaviour_of(instance, settings)
        if behaviour_name == "elsewhere":
            return url or f"https://logs.elsewhere.example/{instance.id}/{kind}"
        if settings.guest_mode in {"realistic", "off"}:
            return RealisticEndpoints().log_address(instance, kind)
        return f"http://{HOST}:{self._web_port}/{instance.id}/logs/{kind}"

    def _token(self, instance: Instance) -> str:
        changing = self._simulator.world.settings.endpoint_changes_on_start
        return f"{instance.id}r{instance.starts}" if changing and instance.starts > 1 else instance.id

    async def _web(self, request: web.Request) -> web.StreamResponse:
        token, port = self._addressed(request)
        match = _TOKEN.fullmatch(token)
        instance = self._simulator.world.instances.get(match[1]) if match else None
        if instance is None or match is None:
            return web.Response(status=404, text="no such instance")
        now = self._simulator.now()
        kind = request.path.rpartition("/")[2]
        if port == "logs" and kind in KINDS and not instance.vanished(now):
            return await LogStream(self._simulator, request, instance, kind).serve()
        starts = int(match[2] or 1)
        stale = self._simulator.world.settings.endpoint_changes_on_start and starts != instance.starts
        if instance.status(now) is not Status.RUNNING or stale or instance.vanished(now):
            return self._down(request)
        if port == str(TERMINAL.port) and not self._may_use_terminal(request, instance):
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="terminal"'})
        workload = behaviour.workload_of(instance, self._simulator.world.settings)
        page = behaviour.page(workload, now - instance.last(Status.RUNNING, now))
        if page is None:
            return await self._hang(request)
        return web.Response(status=page.status, text=page.html, content_type="text/html")

    def _may_use_terminal(self, request: web.Request, instance: Instance) -> bool:
        expected = encode_basic_auth("root", self._simulator.world.password_of(instance))
        return request.headers.get("Authorization") == expected

    def _forwarded(self, instance: Instance, number: int) -> int | None:
        """The loopback port behind a port of a running instance; None if nothing listens there."""
        port = next((port for port in exposed(instance) if port.port == number), None)
        is_refused = behaviour.workload_of(instance, self._simulator.world.settings).kind == "refused"
        return None if port is None or is_refused else self._own(instance, port)

    def _addressed(self, request: web.Request) -> tuple[str, str]:
        """(token, port) of the workload that a request is for, by port, by host name or by path."""
        transport = request.transport
        own = self._owners.get(transport.get_extra_info("sockname")[1]) if transport else None
        if own is not None:
            return own[0], str(own[1])
        if match := _LOCALHOST.fullmatch(request.host):
            return match[1], match[2]
        parts = request.path.split("/")
        return parts[1], parts[2] if len(parts) > 2 else ""  # noqa: PLR2004  # /TOKEN/PORT

    def _down(self, request: web.Request) -> web.StreamResponse:
        """Nothing listens: the proxy says 502, an own port breaks the connection."""
        if self._simulator.world.settings.guest_mode == "own_port":
            return injection.drop(request)
        page = behaviour.BAD_GATEWAY
        return web.Response(status=page.status, text=page.html, content_type="text/html")

    async def _hang(self, request: web.Request) -> web.StreamResponse:
        left = _HANG_SECONDS
        while left > 0 and request.transport is not None and not request.transport.is_closing():
            await pause(_LOOK_SECONDS)
            left -= _LOOK_SECONDS
        return injection.drop(request)

    def _own(self, instance: Instance, port: Port) -> int:
        """The port that belongs to one endpoint, opened now if it is not yet."""
        key = (instance.id, port.port, instance.starts)
        if key not in self._owned:
            listening = bound()
            listening.listen()
            number = int(listening.getsockname()[1])
            self._owned[key] = number
            self._owners[number] = (self._token(instance), port.port)
            listen = self._listen_web if port.type == "http" else self._listen_tcp
            # Bound and listening already: a client that is faster than these tasks waits in the backlog.
            self._do(listen(listening))
            self._do(self._close_unused())
        return self._owned[key]

    def _do(self, work: Coroutine[None, None, int]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _close_unused(self) -> int:
        """Close the ports of removed instances; returns how many."""
        now, instances = self._simulator.now(), self._simulator.world.instances
        unused = [key for key in self._owned if key[0] not in instances or instances[key[0]].removed_at() <= now]
        for key in unused:
            number = self._owned.pop(key)
            self._owners.pop(number, None)
            if site := self._sites.pop(number, None):
                await site.stop()
            if server := self._servers.pop(number, None):
                server.close()
        return len(unused)

    async def _listen_web(self, listening: socket.socket) -> int:
        number = int(listening.getsockname()[1])
        self._sites[number] = web.SockSite(self._runner, listening)
        await self._sites[number].start()
        return number

    async def _listen_tcp(self, listening: socket.socket) -> int:
        number = int(listening.getsockname()[1])
        self._servers[number] = await asyncio.start_server(self._tcp, sock=listening)
        return number

    async def _tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = self._owners.get(writer.get_extra_info("sockname")[1])
        instance = self._simulator.world.instances.get(own[0].partition("r")[0]) if own else None
        if instance is not None and instance.status(self._simulator.now()) is not Status.RUNNING:
            writer.transport.abort()
            return
        with contextlib.suppress(ConnectionError):
            writer.write(_BANNER)
            await writer.drain()
            await reader.read(1)
        writer.close()
