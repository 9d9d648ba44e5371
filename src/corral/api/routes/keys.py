"""The caller of a request, and the API keys: listed, created and revoked."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import FromPath
from msgspec import Meta

from corral.api.http.bodies import JsonResponse, body_of, filled
from corral.api.http.context import context_of
from corral.api.http.request_readers import read_key
from corral.api.middleware.auth import ADMIN, VIEWER, is_forwarded
from corral.api.middleware.idempotency import KEEPS_ANSWERS, REPORTS_PROBLEMS
from corral.api.openapi.document import with_body
from corral.cache.registry import CacheName
from corral.domain.access import Access, ApiKey
from corral.domain.errors import UnauthorisedError
from corral.domain.requests.key import KEY_BODY
from corral.engine.auth import api_keys
from corral.engine.engine import Engine
from corral.views.schemas import Time

SECRET: Final = ((b"cache-control", b"no-store"),)
"""Of the response with a new key: it is kept in no cache, and not compressed."""


class CallerDetails(msgspec.Struct, rename="camel"):
    """The caller of this request."""

    name: Annotated[
        str, Meta(description="Name of its key, or of the user that a proxy signed in; else `local`, on this machine.")
    ]
    role: Access
    key_id: Annotated[str | None, Meta(description="The id of its key; null without one.")]
    key_required: Annotated[bool, Meta(description="Whether requests like this one need a key.")]
    via_proxy: Annotated[bool, Meta(description="Whether a trusted proxy signed it in; see `AUTH_PROXY_HEADER`.")]


class KeyDetails(msgspec.Struct, rename="camel"):
    """One API key, without the key itself."""

    id: str
    name: str
    role: Access
    prefix: Annotated[str, Meta(description="Its first characters, to tell keys apart.")]
    created_at: Time
    last_used_at: Annotated[str | None, Meta(description="To within a few minutes; null: never.")]
    revoked_at: Annotated[str | None, Meta(description="Null while it is in use.")]


class NewKey(KeyDetails, rename="camel"):
    """A key that was just created."""

    key: Annotated[str, Meta(description="The key itself. It is shown this once, and only its hash is stored.")]


class KeyList(msgspec.Struct):
    """All keys, oldest first."""

    keys: list[KeyDetails]


def handlers(engine: Engine, *, local_only: bool) -> list[HTTPRouteHandler]:
    """The routes of `/api/whoami` and `/api/keys`; with *local_only* programs on this machine need no key."""

    @get("/api/whoami", summary="Get the caller", tags=["keys"], opt=VIEWER)
    async def get_caller(request: Request[Any, Any, Any]) -> CallerDetails:
        """For a page or a command that shows who is signed in, and what the role allows."""
        context = context_of(request.scope)
        caller = context.identity.caller
        if caller is None:
            raise UnauthorisedError("an API key is needed")
        required = not caller.via_proxy and (not local_only or is_forwarded(context.headers))
        return filled(CallerDetails, caller, role=caller.access, key_required=required)

    return [get_caller, *_keys(engine)]


def _keys(engine: Engine) -> list[HTTPRouteHandler]:
    database, clock = engine.runtime.database, engine.runtime.clock

    @get("/api/keys", summary="List API keys", tags=["keys"], opt=ADMIN)
    async def list_keys() -> KeyList:
        """All keys with their roles and when they were last used, also the revoked."""
        return KeyList(keys=[_details(key) for key in await api_keys.list_keys(database)])

    @post(
        "/api/keys",
        summary="Create an API key",
        tags=["keys"],
        status_code=HTTPStatus.CREATED,
        operation_class=with_body(KEY_BODY, required=True),
        responses={HTTPStatus.CREATED: ResponseSpec(data_container=NewKey, description="The key, shown this once.")},
        opt={**ADMIN, KEEPS_ANSWERS: True, REPORTS_PROBLEMS: True},
    )
    async def create_key(request: Request[Any, Any, Any]) -> JsonResponse:
        """
        Two keys in use cannot have the same name.

        The response holds the key, so it is not stored: a repetition with the same `Idempotency-Key` does not get it
        again, but 409 because the name is in use.
        """
        context = context_of(request.scope)
        context.is_settled = True
        wanted = read_key(await body_of(request), beside=context.problems)
        line = context.success_line(HTTPStatus.CREATED)
        key, text = await api_keys.create_key(
            database, name=wanted.name, access=wanted.access, now=clock.now(), line=line
        )
        context.is_audited = True
        engine.caches.registry.clear(CacheName.API_KEYS)
        made = filled(NewKey, key, role=key.access, key=text)
        return JsonResponse(status=HTTPStatus.CREATED, body=msgspec.json.encode(made), headers=SECRET)

    @delete("/api/keys/{key_id:str}", summary="Revoke an API key", tags=["keys"], status_code=200, opt=ADMIN)
    async def revoke_key(request: Request[Any, Any, Any], key_id: FromPath[str]) -> KeyDetails:
        """Named by its id or its name. Every process refuses it at once, for good, also when it is the caller's own."""
        context = context_of(request.scope)
        line = context.success_line(HTTPStatus.OK)
        key = await api_keys.revoke_key(database, named=key_id, now=clock.now(), line=line)
        context.is_audited = True
        engine.caches.registry.clear(CacheName.API_KEYS)
        return _details(key)

    return [list_keys, create_key, revoke_key]


def _details(key: ApiKey) -> KeyDetails:
    return filled(KeyDetails, key, role=key.access)
