"""
`Idempotency-Key`: a repeated POST or DELETE gets the first response and changes nothing.

A route that stores its response in the transaction of its change declares it (`KEEPS_ANSWERS`) and needs no claim. For
any other route the key is claimed first and the response stored after; the claim of a process that dies in between
expires. Repetitions that arrive meanwhile wait for the first response. Responses that ask the caller to retry, that
refuse an invalid request, or that depend on the present stock or on what is left of a budget are not stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from corral.api.http.bodies import JsonResponse, read_body
from corral.api.http.context import RequestContext, context_of
from corral.base.clock import Clock
from corral.domain.errors import FieldProblem, GoalRefusedError, SpecInvalidError, StaleError, StoreUnavailableError
from corral.domain.idempotency import IdempotencyKey, KeyRow, StoredResponse
from corral.engine.batcher import Batcher
from corral.store.secrets.key_file import SecretKeyFile
from corral.store.session.database import Database
from corral.store.tables.callers import idempotency

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

KEEPS_ANSWERS: Final = "keeps_answers"
"""The `opt` of a route that stores its responses itself."""
REPORTS_PROBLEMS: Final = "reports_problems"
"""The `opt` of a route that reports an invalid key together with the other invalid fields."""
HEADER: Final = "Idempotency-Key"
_HEADER: Final = HEADER.lower().encode()

POLL_SECONDS: Final = 0.05
"""Between two reads of a key whose request is being executed; waiting requests share each read."""

_SECRETS: Final = re.compile(rb'"secrets"|\\u00[67]')
"""In every body that has secrets: JSON may also spell a letter of the name as an escape."""
_KEY = re.compile(rb"[\x20-\x7e]{1,255}")
_NOT_STORED = frozenset({
    "VALIDATION_ERROR", "INVALID_JSON", "INVALID_REQUEST", "BODY_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE",
    "REQUEST_TIMEOUT", "UNAUTHORIZED", "FORBIDDEN", "IDEMPOTENCY_KEY_REUSED", "NO_OPTIMAL_PRODUCT_ANY_REGION",
    "BUDGET_EXCEEDED",
})  # fmt: skip


def replayed(context: RequestContext, row: KeyRow) -> JsonResponse:
    """
    The response stored in *row*, which another request with the same key left.

    Raises GoalRefusedError when the key was used for another request, StaleError while that request runs.
    """
    response = _replay(_first_answer(row, b"" if context.key is None else context.key.fingerprint))
    context.is_settled = True
    return response


def committed(context: RequestContext, response: StoredResponse, *, is_audited: bool) -> JsonResponse:
    """The response to a command that stored it under the request's key, and wrote the audit line if *is_audited*."""
    context.is_settled, context.is_audited = True, is_audited
    return JsonResponse(status=response.status, body=response.body)


class IdempotencyKeys:
    """Reads keys; those that are requested at the same time are read with one statement."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._asked = Batcher[str, KeyRow | None](self._read)

    async def find(self, key: str) -> KeyRow | None:
        """The row of *key*; None when it is free."""
        return await self._asked.add(key)

    async def _read(self, keys: Sequence[str]) -> list[KeyRow | None]:
        async with self._database.connection() as connection:
            found = await idempotency.find(connection, keys, self._clock.now())
        return [found.get(key) for key in keys]


class IdempotencyMiddleware:
    """Middleware around every route."""

    def __init__(
        self, app: ASGIApp, database: Database, clock: Clock, patience: float, secret_key: SecretKeyFile
    ) -> None:
        self._app = app
        self._secret_key = secret_key
        self._patience = patience
        self._keys = IdempotencyKeys(database, clock)
        self._database = database
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or send the stored response."""
        key = _key_of(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        read = await read_body(receive)
        fingerprint = _fingerprint(scope, read.content)
        if _SECRETS.search(read.content):
            # Otherwise a copy of the database would show whether a guess of a secret is right.
            fingerprint = self._secret_key.load_or_create().digest(fingerprint)
        first = await self._first(key, fingerprint)
        if first is not None:
            await _replay(first)(scope, receive, send)
        elif cast("Any", scope)["route_handler"].opt.get(KEEPS_ANSWERS):
            await self._serve_keeping(IdempotencyKey(key=key, fingerprint=fingerprint), scope, read.receive, send)
        else:
            await self._claim(key, fingerprint, scope, read.receive, send)

    async def _first(self, key: str, fingerprint: bytes) -> StoredResponse | None:
        """
        The response stored under *key*; None when the key is free.

        Waits for a request that is being executed; raises StaleError when that takes too long, and GoalRefusedError
        when the key was used for another request.
        """
        give_up_at = self._clock.monotonic() + self._patience
        while (row := await self._keys.find(key)) is not None:
            is_running = row.answer is None and row.fingerprint == fingerprint
            if not is_running or self._clock.monotonic() >= give_up_at:
                return _first_answer(row, fingerprint)
            await self._clock.sleep(POLL_SECONDS)
        return None

    async def _serve_keeping(self, key: IdempotencyKey, scope: Scope, receive: Receive, send: Send) -> None:
        recorded = _ResponseRecorder()
        context = context_of(scope)
        context.key = key
        await self._app(scope, receive, recorded.send)
        answer = recorded.answer()
        if not context.is_settled and answer.status >= HTTPStatus.BAD_REQUEST:
            # It may be refused because a request with the same key was executed meanwhile: then it gets that response.
            with contextlib.suppress(StoreUnavailableError):
                first = await self._first(key.key, key.fingerprint)
                if first is not None:
                    await _replay(first)(scope, receive, send)
                    return
        if not context.is_settled and _is_lasting(answer):
            row = KeyRow(key=key.key, fingerprint=key.fingerprint, answer=answer)
            with contextlib.suppress(StoreUnavailableError):
                async with self._database.transaction() as connection:
                    await idempotency.keep(connection, [row], self._clock.now())
        await recorded.pass_on(send)

    async def _claim(self, key: str, fingerprint: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._database.connection() as connection:
            claim = await idempotency.claim(connection, key, fingerprint, self._clock.now())
        if claim is None:
            first = await self._first(key, fingerprint)
            if first is None:
                raise _still_running()  # its response was not stored: the caller may try again
            await _replay(first)(scope, receive, send)
            return
        recorded = _ResponseRecorder()
        await self._app(scope, receive, recorded.send)
        answer = recorded.answer()
        with contextlib.suppress(StoreUnavailableError):  # the claim then expires
            async with self._database.connection() as connection:
                await idempotency.settle(connection, claim, answer if _is_lasting(answer) else None)
        await recorded.pass_on(send)


class _ResponseRecorder:
    """A response that is held back until it is stored."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self._messages.append(message)

    def answer(self) -> StoredResponse:
        status, body = int(HTTPStatus.INTERNAL_SERVER_ERROR), bytearray()
        for message in cast("list[Any]", self._messages):
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                body += message.get("body", b"")
        return StoredResponse(status=status, body=bytes(body))

    async def pass_on(self, send: Send) -> None:
        for message in self._messages:
            await send(message)


def _key_of(scope: Scope) -> str | None:
    """The key of a POST or DELETE, if any; raises SpecInvalidError when it is invalid."""
    context = context_of(scope)
    given = context.headers.get(_HEADER)
    if given is None or context.method not in {"POST", "DELETE"}:
        return None
    if not _KEY.fullmatch(given):
        message = "must have 1 to 255 printable ASCII characters"
        problem = FieldProblem(field=HEADER, code="VALIDATION_ERROR", message=message, shows_value=False)
        if not cast("Any", scope)["route_handler"].opt.get(REPORTS_PROBLEMS):
            raise SpecInvalidError([problem])
        context.problems = (problem,)
        return None
    # Keys are separate for each caller: no caller gets the response to another.
    caller = context.identity.caller
    owner = None if caller is None else caller.id
    return given.decode("ascii") if owner is None else f"{owner}/{given.decode('ascii')}"


def _fingerprint(scope: Scope, body: bytes) -> bytes:
    """A hash of method, path, query and body: equal for repetitions of one request."""
    http = cast("Any", scope)
    parts = (http["method"].encode(), http["path"].encode(), http["query_string"], body)
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def _first_answer(row: KeyRow, fingerprint: bytes) -> StoredResponse:
    if row.fingerprint != fingerprint:
        raise GoalRefusedError(
            f"this {HEADER} was used for another request in the last 24 hours: use a new key for a new request",
            code="IDEMPOTENCY_KEY_REUSED",
        )
    if row.answer is None:
        raise _still_running()
    return row.answer


def _still_running() -> StaleError:
    return StaleError(f"a request with this {HEADER} is being executed; repeat it in a moment", retry_after_seconds=1)


def _is_lasting(answer: StoredResponse) -> bool:
    """Whether this response is stored for repetitions."""
    if answer.status < HTTPStatus.BAD_REQUEST:
        return True
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return False
    error = msgspec.json.decode(answer.body)["error"]
    return not error["retryable"] and error["code"] not in _NOT_STORED


def _replay(answer: StoredResponse) -> JsonResponse:
    return JsonResponse(status=answer.status, body=answer.body, headers=((b"idempotent-replayed", b"true"),))
