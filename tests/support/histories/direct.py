"""
The simulated provider without sockets: an Exchange that calls the simulator's handlers in this very process.

What an answer, a refusal or a broken connection means is read by the product's own code, so a test over this exchange
tries that too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

import aiohttp
import msgspec

from corral.base.clock import Clock
from corral.cloud.exchange import Answer, Call
from corral.cloud.novita import faults, http
from novitasim.api import refusal
from novitasim.api.refusal import RefusalError
from novitasim.server.simulator import ROUTES, Simulator
from novitasim.testing import BASE_PATH
from support.histories.script import HELD_BACK, MEANWHILE, SPOILT, UNSENT, WAITING, Mishap, Script

LATE_SECONDS = 15.0
"""Together with the longest lag of the list (40 s) this stays just under the time a doubt lasts (60 s)."""
_ROUTES = {(route.method, route.path.removeprefix(BASE_PATH)): route for route in ROUTES}
_REFUSALS = {
    Mishap.THROTTLED: RefusalError("RATE_LIMIT_EXCEEDED", "rate limit exceeded"),
    Mishap.UNAUTHORISED: RefusalError("UNAUTHORIZED", "unauthorized"),
    Mishap.ERROR_500: RefusalError("UNKNOWN", "simulated failure"),
    Mishap.DONE_500: RefusalError("UNKNOWN", "simulated failure"),
}
_SHARED = frozenset({"template", "clusters", "products"})
_LATE = frozenset({"create", "start", "restart", "stop"})
"""Calls that may arrive long after they were given up, and then still do something."""
_OK = 200


class DirectExchange:
    """An Exchange; *meanwhile* does what others do while a call is under way."""

    def __init__(
        self, simulator: Simulator, clock: Clock, script: Script, meanwhile: Callable[[Mishap], Awaitable[None]]
    ) -> None:
        self._simulator = simulator
        self._clock = clock
        self._script = script
        self._meanwhile = meanwhile
        self.late: list[tuple[float, Call]] = []
        """Calls still on their way though given up, and when they arrive."""
        self.lose_next: str | None = None
        """The endpoint that loses its next answer, whatever the script says."""

    @property
    def provider_time(self) -> datetime | None:
        return None

    async def ask(self, call: Call, answer: type[Answer]) -> Answer:
        mishap = self._mishap(call)
        if mishap is Mishap.KILLED_BEFORE:
            self._script.kill()
        await self._wait_for_permit(call, mishap)
        if mishap in HELD_BACK:
            await self._meanwhile(mishap)
        if mishap in UNSENT:
            if mishap is Mishap.LATE and call.endpoint in _LATE:
                self.late.append((self._clock.monotonic() + LATE_SECONDS, call))
            raise self._fault(mishap)
        status, content = self._do(call)
        if mishap in {Mishap.KILLED_AFTER, Mishap.HELD_BACK_KILLED}:
            self._script.kill()
        if mishap in MEANWHILE:
            await self._meanwhile(mishap)
        if mishap in SPOILT:
            raise self._fault(mishap)
        if status != _OK:
            raise faults.refusal(status, content, retry_after=None, now=self._clock.now())
        return http._read(status, content, answer)

    async def _wait_for_permit(self, call: Call, mishap: Mishap) -> None:
        if mishap is Mishap.STOPPED_WAITING:
            if call.endpoint == "create":  # what else is stopped is simply done again
                raise asyncio.CancelledError
            return
        if mishap in WAITING:
            await self._meanwhile(mishap)
        if call.before_send is not None:
            await call.before_send()

    def _mishap(self, call: Call) -> Mishap:
        mishap = self._script.at_call(call.endpoint)
        if call.endpoint == self.lose_next:
            self.lose_next = None
            return Mishap.LOST_REPLY
        if call.endpoint in _SHARED and mishap in HELD_BACK | MEANWHILE | WAITING:
            return Mishap.NONE  # everybody in this process waits for that one answer
        return mishap

    def arrive(self) -> None:
        """Carry out what was late and is due by now."""
        due = [call for at, call in self.late if at <= self._clock.monotonic()]
        self.late = [entry for entry in self.late if entry[0] > self._clock.monotonic()]
        for call in due:
            self._do(call)

    def _do(self, call: Call) -> tuple[int, bytes]:
        route = _ROUTES[call.method, call.path]
        body = msgspec.json.decode(call.body) if call.body else {}
        try:
            done = route.handler(self._simulator.call(dict(call.query), body))
        except RefusalError as refused:
            return refused.status, _body(refused)
        self._simulator.record()
        return done.status, done.content

    def _fault(self, mishap: Mishap) -> Exception:
        match mishap:
            case Mishap.REFUSED:
                return faults.broken(aiohttp.ConnectionTimeoutError())
            case Mishap.TIMED_OUT | Mishap.LATE:
                return faults.broken(TimeoutError())
            case Mishap.LOST_REPLY | Mishap.HELD_BACK:
                return faults.broken(aiohttp.ServerDisconnectedError())
            case Mishap.GARBAGE:
                return faults.unreadable(_OK, "an answer that cannot be read")
            case Mishap.FRONT_PAGE:
                return faults.refusal(403, b"<html>denied</html>", retry_after=None, now=self._clock.now())
            case _:
                refused = _REFUSALS[mishap]
                return faults.refusal(refused.status, _body(refused), retry_after="5", now=self._clock.now())


def _body(refused: RefusalError) -> bytes:
    return msgspec.json.encode(refusal.body(refused, metadata=False))
