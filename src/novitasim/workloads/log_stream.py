"""
The log addresses of instances, as HTTP: the lines so far, and with `follow` those to come.

Query: `follow`, `tail` (the last lines only) and `sse` (as server-sent events), as one public client sends them; what
each means when it is missing is a setting.
"""

from __future__ import annotations

import contextlib

from aiohttp import web

from novitasim.server.clock import pause
from novitasim.server.simulator import Simulator
from novitasim.workloads import logs
from novitasim.workloads.image_pull import Line
from novitasim.world.instance import Instance

KINDS = ("system", "instance")
_METADATA = "http://169.254.169.254/latest/meta-data/"
# How often a followed log looks for new lines: a shorter time costs CPU for each follower.
_LOOK_SECONDS = 0.1
_MOST_HANG_SECONDS = 600.0
_ESCAPES = b"\x00\xff\xfe\x80 \x1b[2J\x1b]0;owned\x07\x1b[31m\x9b31m \r\x08\x7f\xc3\x28"
_LONG_LINE = b"x" * 1024 * 1024
_MANY_LINES = b"".join(b"line %d of a log without end\n" % number for number in range(2000))


class LogStream:
    """One request for one log."""

    def __init__(self, simulator: Simulator, request: web.Request, instance: Instance, kind: str) -> None:
        self._simulator = simulator
        self._request = request
        self._instance_id = instance.id
        self._kind = kind
        self._behaviour, self._argument = logs.behaviour_of(instance, simulator.world.settings)
        self._since, self._sent = 0.0, 0
        settings = simulator.world.settings
        self._follow = _flag(request, "follow", default=settings.log_follow_default)
        self._sse = _flag(request, "sse", default=settings.log_sse_default)

    async def serve(self) -> web.StreamResponse:
        """Send the log as its behaviour says."""
        if self._simulator.world.settings.log_auth == "bearer" and "Authorization" not in self._request.headers:
            return web.Response(status=401, text="unauthorized")
        if self._behaviour == "redirect":
            return web.Response(status=302, headers={"Location": self._argument or _METADATA})
        if self._behaviour == "status":
            return web.Response(status=int(self._argument), text="simulated failure")
        kind = "text/event-stream" if self._sse else "text/plain"
        response = web.StreamResponse(headers={"Content-Type": f"{kind}; charset=utf-8"})
        await response.prepare(self._request)
        with contextlib.suppress(ConnectionError):
            await self._send(response)
        return response

    async def _send(self, response: web.StreamResponse) -> None:
        begun = self._fresh(self._simulator.now())
        tail = self._request.query.get("tail", "")
        shown = begun[-int(tail) :] if tail.isdecimal() and int(tail) else begun
        match self._behaviour:
            case "cut" | "stall":
                await self._write(response, shown[: max(1, len(shown) // 2)])
                if self._behaviour == "stall":
                    await self._wait(_MOST_HANG_SECONDS)
                # Closed, not reset: what was written must arrive before the connection ends.
                if self._request.transport is not None:
                    self._request.transport.close()
            case "endless" | "long_line":
                while self._is_connected():
                    await response.write(_MANY_LINES if self._behaviour == "endless" else _LONG_LINE + b"\n")
            case _:
                if self._behaviour == "garbage":
                    await response.write(_ESCAPES + b"\n")
                await self._write(response, shown)
                if self._follow:
                    await self._go_on(response)

    async def _go_on(self, response: web.StreamResponse) -> None:
        while self._is_connected():
            now = self._simulator.now()
            await self._write(response, self._fresh(now))
            instance = self._simulator.world.instances.get(self._instance_id)
            if instance is None or instance.removed_at() <= now:
                return
            await pause(_LOOK_SECONDS)

    def _fresh(self, now: float) -> list[Line]:
        """The lines since the last call. Lines of one instant may come in two calls, so those sent are counted."""
        world = self._simulator.world
        instance = world.instances.get(self._instance_id)
        if instance is None:
            return []
        known = logs.lines(instance, self._kind, world.settings, since=self._since, until=now)
        fresh = known[self._sent :]
        if known:
            self._since = known[-1].at
            self._sent = sum(line.at == self._since for line in known)
        return fresh

    async def _write(self, response: web.StreamResponse, shown: list[Line]) -> None:
        settings = self._simulator.world.settings
        form = "data: {}\n\n" if self._sse else "{}\n"
        if shown:
            await response.write("".join(form.format(logs.rendered(line, settings)) for line in shown).encode())

    async def _wait(self, seconds: float) -> None:
        while seconds > 0 and self._is_connected():
            await pause(_LOOK_SECONDS)
            seconds -= _LOOK_SECONDS

    def _is_connected(self) -> bool:
        return self._request.transport is not None and not self._request.transport.is_closing()


def _flag(request: web.Request, name: str, *, default: bool) -> bool:
    value = request.query.get(name)
    return default if value is None else value.lower() in {"1", "true", "yes", ""}
