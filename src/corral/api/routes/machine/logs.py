"""Routes that relay the logs of a machine, and show the progress of its image pull."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, QueryParameter
from msgspec import Meta

from corral.api.http.bodies import filled
from corral.api.http.context import context_of
from corral.api.middleware.auth import OPERATOR, still_admitted
from corral.engine.auth.api_keys import ApiKeys
from corral.engine.machine.image_pulls import ImagePulls
from corral.engine.machine.log_relay import LogReading, LogRelay, LogSource

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

MOST_LINES: Final = 10_000
_HEADERS: Final = (
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy that collects answers would hold lines back
)


class LogResponse:
    """An ASGI application that sends a log until it ends or its client disconnects."""

    def __init__(self, reading: LogReading) -> None:
        self._reading = reading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and release its place at once when the client is gone."""
        sending = asyncio.ensure_future(self._send(send, only_headers=context_of(scope).method == "HEAD"))
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            self._reading.close()
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, send: Send, *, only_headers: bool) -> None:
        await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": list(_HEADERS)})
        # At once: until the first piece of a body its caller counts as waiting for an answer.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        while not only_headers and (lines := await self._reading.next()):
            await send({"type": "http.response.body", "body": lines, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class ImagePullDetails(msgspec.Struct, rename="camel"):
    """How far the pull of an image is."""

    pulling: Annotated[bool, Meta(description="Whether it is being pulled, as far as the log shows.")]
    layers: Annotated[int, Meta(description="Layers that the log names.")]
    layers_complete: Annotated[int, Meta(description="Those of them that are downloaded and unpacked.")]
    bytes_done: Annotated[int, Meta(description="Downloaded, of the layers whose size is known.")]
    bytes_total: Annotated[int, Meta(description="The known sizes together.")]
    percent: Annotated[float | None, Meta(description="An estimate, which may go down; null while nothing is known.")]
    line: Annotated[str, Meta(description="The last line of the log about it.")]


def handlers(relay: LogRelay, pulls: ImagePulls, keys: ApiKeys) -> list[HTTPRouteHandler]:
    """The routes of `/api/instances/{id}/logs` and `/image-pull`."""

    @get(
        "/api/instances/{instance_id:str}/logs",
        summary="Read the logs of an instance",
        tags=["machines"],
        opt=OPERATOR,
        media_type="text/plain",
        responses={
            200: ResponseSpec(
                data_container=str,
                media_type="text/plain",
                description="Lines of at most 16 KiB, without control characters.",
                generate_examples=False,
            )
        },
    )
    async def get_logs(
        request: Request[Any, Any, Any],
        instance_id: FromPath[str],
        *,
        source: Annotated[
            LogSource, QueryParameter(description="`system`: pull and start; `instance`: what the container prints.")
        ] = LogSource.INSTANCE,
        tail: Annotated[
            int, QueryParameter(ge=1, le=MOST_LINES, description="How many of the lines that are there.")
        ] = 200,
        follow: Annotated[bool, QueryParameter(description="Whether to go on with each line as it comes.")] = False,
    ) -> LogResponse:
        """
        Relayed from the provider as text; terminal escapes and other control characters are removed.

        A log is followed for at most 30 minutes and 64 MB, and read without following for at most a minute and 8 MB; a
        reading that ends early ends with a line `[corral: …]`. A process serves 100 at the same time. Revoking the key
        ends it, and a user of a proxy reads for ten minutes.
        """
        is_allowed = still_admitted(request.scope, keys)
        return LogResponse(await relay.open(instance_id, source, tail=tail, follow=follow, is_allowed=is_allowed))

    @get(
        "/api/instances/{instance_id:str}/image-pull",
        summary="Get the progress of the image pull",
        tags=["machines"],
        opt=OPERATOR,
    )
    async def get_image_pull(instance_id: FromPath[str]) -> ImagePullDetails:
        """Read from the system log; an answer is reused for two seconds."""
        return filled(ImagePullDetails, await pulls.progress(instance_id))

    return [get_logs, get_image_pull]


async def _disconnected(receive: Receive) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
