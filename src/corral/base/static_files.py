"""Files that are served as they are: compressed once, and not sent again to a client that has them. Pure."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from http import HTTPStatus
from typing import Final, Self

_BEST: Final = 9
_LEAST_SAVED: Final = 0.9
"""Above this share of the length compression is not worth the work of the client."""


@lru_cache(maxsize=256)
def accepts_gzip(accept_encoding: str | None) -> bool:
    """Whether a client with this `Accept-Encoding` takes gzip; one without the header is sent the body as it is."""
    if accept_encoding is None:
        return False
    weights: dict[str, float] = {}
    for part in accept_encoding.lower().split(","):
        coding, _, parameter = part.partition(";")
        name, _, value = parameter.strip().partition("=")
        try:
            weights[coding.strip()] = float(value) if name.strip() == "q" else 1.0
        except ValueError:
            weights[coding.strip()] = 0.0
    return weights.get("gzip", weights.get("*", 0.0)) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticResponse:
    """What is sent to one client."""

    status: HTTPStatus
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """A file that changes only with the program."""

    body: bytes
    gzipped: bytes | None
    """None if it is compressed already, as pictures are."""
    media_type: str
    digest: str

    @classmethod
    def of(cls, body: bytes, media_type: str) -> Self:
        """Compress *body*, once."""
        gzipped = gzip.compress(body, _BEST, mtime=0)
        is_shorter = len(gzipped) < _LEAST_SAVED * len(body)
        digest = sha256(body).hexdigest()[:32]
        return cls(body=body, gzipped=gzipped if is_shorter else None, media_type=media_type, digest=digest)

    def response(self, *, accept_encoding: str | None, if_none_match: str | None) -> StaticResponse:
        """
        The file as these headers of a request ask for it, or 304 when the client has it.

        Clients ask every time (`no-cache`), so files of two releases never mix. Each coding has its own ETag.
        """
        body, tag = self.body, f'"{self.digest}"'
        headers = {"cache-control": "no-cache", "vary": "Accept-Encoding"}
        if self.gzipped is not None and accepts_gzip(accept_encoding):
            body, tag = self.gzipped, f'"{self.digest}-gzip"'
            headers["content-encoding"] = "gzip"
        headers["etag"] = tag
        if tag in {each.strip().removeprefix("W/") for each in (if_none_match or "").split(",")}:
            headers.pop("content-encoding", None)
            return StaticResponse(status=HTTPStatus.NOT_MODIFIED, headers=headers, body=b"")
        return StaticResponse(status=HTTPStatus.OK, headers=headers, body=body)
