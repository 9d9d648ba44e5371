"""
The provider's HTTP side: admission, faults, the call itself, and the answer.

A call is done in one go between two awaits, so calls never see each other half done. What it changed is on disk before
the answer leaves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from email.utils import formatdate

import msgspec
from aiohttp import web

from novitasim.api import odd_answers, refusal
from novitasim.api.call import Reply, Route
from novitasim.api.create_request import invalid
from novitasim.api.refusal import RefusalError
from novitasim.faults import faults, injection
from novitasim.faults.faults import Facts, Fault, Rule
from novitasim.server.clock import pause
from novitasim.server.simulator import ROUTES, Simulator

Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]

_JSON = "application/json"
_LATENCY_SECONDS = 1.0
_THROTTLE_SECONDS = 5

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, object]).decode


def add_routes(app: web.Application, simulator: Simulator) -> None:
    """Serve every call of the provider."""
    for route in ROUTES:
        app.router.add_route(route.method, route.path, Provider(simulator, route).serve)


class Provider:
    """One call of the provider, as HTTP."""

    def __init__(self, simulator: Simulator, route: Route) -> None:
        self._simulator = simulator
        self._route = route

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer, or fail as a fault rule says, with the headers of every answer."""
        response = await self._answer(request)
        if not response.prepared:
            response.headers.update(self._headers())
        return response

    def _headers(self) -> dict[str, str]:
        settings = self._simulator.world.settings
        at = self._simulator.clock.watch() + settings.clock_ahead_seconds
        limit = {"X-RateLimit-Limit": str(settings.rate_limit_per_minute)} if settings.rate_headers == "limit" else {}
        return {"Date": formatdate(at, usegmt=True), **limit}

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        calls, endpoint = self._simulator.calls, self._route.endpoint
        calls.arrived(endpoint, self._simulator.clock.watch())
        content = await request.read() if request.can_read_body else b""
        refused = self._admission(request)
        if refused is not None:
            calls.ended(endpoint, str(refused.status))
            return refused
        query = dict(request.query)
        try:
            body = _decode(content) if content else {}
        except msgspec.MsgspecError:
            calls.ended(endpoint, "400")
            return self._refusal(invalid("invalid request body: must be a JSON object"))
        struck = self._simulator.struck(Facts(endpoint, self._name(query, body)))
        if not struck:
            answer = self._do(query, body)
            calls.ended(endpoint, str(answer.status))
            return web.Response(body=answer.content, status=answer.status, content_type=_JSON)
        ending = next((rule for rule in struck if rule.fault not in faults.JOINING), None)
        response = await self._struck(request, query, body, struck, ending)
        dropped = isinstance(response, injection.DroppedResponse)
        calls.ended(endpoint, ending.fault.value if ending and dropped else str(response.status))
        return response

    async def _struck(
        self,
        request: web.Request,
        query: dict[str, str],
        body: dict[str, object],
        struck: list[Rule],
        ending: Rule | None,
    ) -> web.StreamResponse:
        for rule in struck:
            if rule.fault is Fault.LATENCY:
                await pause(_LATENCY_SECONDS if rule.seconds is None else rule.seconds)
        if ending is not None and ending.fault in faults.BEFORE:
            return self._undone(request, ending)
        if ending is not None and ending.fault is Fault.HANG and not ending.done:
            return await injection.hang(request, ending)
        answer = self._do(query, body)
        for rule in struck:
            if rule.fault in faults.HARMS:
                self._simulator.harm(rule, answer)
        self._simulator.record()
        if ending is None:
            return web.Response(body=answer.content, status=answer.status, content_type=_JSON)
        if ending.fault is Fault.HANG:
            return await injection.hang(request, ending)
        if ending.fault is Fault.CREATED_500:
            return self._refusal(RefusalError("UNKNOWN", ending.message))
        return await injection.spoil(request, ending.fault, answer.content)

    def _undone(self, request: web.Request, rule: Rule) -> web.StreamResponse:
        match rule.fault:
            case Fault.THROTTLE:
                seconds = _THROTTLE_SECONDS if rule.seconds is None else int(rule.seconds)
                return self._throttled(seconds, rule.retry_after)
            case Fault.ERROR_500:
                return self._refusal(RefusalError("UNKNOWN", rule.message))
            case Fault.IGNORE:
                return web.Response(body=b"{}", content_type=_JSON)
            case Fault.DENY:
                return self._refusal(RefusalError("REQUEST", rule.message))
            case Fault.UNAUTHORIZED:
                return self._refusal(RefusalError("UNAUTHORIZED", "unauthorized"))
            case Fault.HTML:
                return injection.front_page()
            case _:
                return injection.drop(request)

    def _do(self, query: dict[str, str], body: dict[str, object]) -> Reply:
        odd = self._simulator.world.settings.odd_answers
        try:
            answer = self._route.handler(self._simulator.call(query, body))
        except RefusalError as refused:
            metadata = self._simulator.world.settings.error_metadata
            answer = Reply(_encode(refusal.body(refused, metadata=metadata)), status=refused.status)
        self._simulator.record()
        return odd_answers.applied(odd, self._route.endpoint, answer) if odd else answer

    def _admission(self, request: web.Request) -> web.StreamResponse | None:
        simulator = self._simulator
        settings = simulator.world.settings
        if settings.browser_check and request.headers.get("User-Agent", "").startswith("Python-urllib"):
            return injection.front_page()
        kind, _, key = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or not key.strip() or (simulator.keys and key.strip() not in simulator.keys):
            if settings.bad_key_status == RefusalError("UNAUTHORIZED", "").status:
                return self._refusal(RefusalError("UNAUTHORIZED", "unauthorized"))
            return self._refusal(RefusalError("INVALID_API_KEY", "invalid api-key"))
        wait = simulator.calls.admit(simulator.clock.watch(), settings.rate_limit_per_minute)
        if wait is not None:
            return self._throttled(wait, None)
        if self._route.is_paced and simulator.calls.is_too_fast(
            simulator.clock.watch(), settings.bill_interval_seconds
        ):
            return self._refusal(RefusalError("LIST_BILL_TOO_FAST", "list bill too fast"))
        return None

    def _throttled(self, seconds: int, form: str | None) -> web.Response:
        settings = self._simulator.world.settings
        response = self._refusal(RefusalError("RATE_LIMIT_EXCEEDED", "rate limit exceeded"))
        response.headers.update(
            injection.retry_after(form or settings.retry_after, seconds, self._simulator.clock.watch())
        )
        return response

    def _refusal(self, refused: RefusalError) -> web.Response:
        metadata = self._simulator.world.settings.error_metadata
        content = _encode(refusal.body(refused, metadata=metadata))
        return web.Response(body=content, status=refused.status, content_type=_JSON)

    def _name(self, query: dict[str, str], body: dict[str, object]) -> str:
        """The name of the instance that a call is about, for rules that ask for one."""
        if self._route.endpoint == "create":
            return str(body.get("name") or "")
        instance = self._simulator.world.instances.get(str(query.get("instanceId") or body.get("instanceId") or ""))
        return instance.order.name if instance else ""
