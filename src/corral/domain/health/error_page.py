"""
Detects a gateway's error page that was sent with status 200.

Proxies in front of an instance may send their error page with status 200. Such a page is short. A long article about
"502 Bad Gateway", a chat log or a script that contains the words comes from a working application. The rule:

- HTML: a phrase in the title or a first-level heading of a page with little text, or anywhere in one with hardly any.
- Plain text: a phrase in a short text.
- Anything else (JSON, images, scripts) is the application's own response and is not searched.

The body is untrusted, so the scan is linear in its size.
"""

from __future__ import annotations

import re
from html import unescape

from corral.domain.health.network_faults import FaultCategory

PHRASES: dict[str, FaultCategory] = {
    "bad gateway": FaultCategory.BAD_GATEWAY,
    "proxy error": FaultCategory.BAD_GATEWAY,
    "upstream error": FaultCategory.BAD_GATEWAY,
    "upstream connect error": FaultCategory.BAD_GATEWAY,
    "no healthy upstream": FaultCategory.SERVICE_UNAVAILABLE,
    "service unavailable": FaultCategory.SERVICE_UNAVAILABLE,
    "temporarily unavailable": FaultCategory.SERVICE_UNAVAILABLE,
    "gateway timeout": FaultCategory.TIMEOUT,
    "gateway time-out": FaultCategory.TIMEOUT,
    "internal server error": FaultCategory.SERVER_ERROR,
}
"""Phrases on the error pages of nginx, Apache, HAProxy, Envoy, Cloudflare and AWS, in lower case."""

_PHRASE = re.compile(r"\b(?:" + "|".join(map(re.escape, PHRASES)) + r")\b")

HARDLY_ANY_TEXT = 512
"""Visible characters of a bare error page, with room for a request id and an apology. Larger: a small status page that
mentions an outage counts as an error page. Smaller: wordy error pages are missed."""

LITTLE_TEXT = 2048
"""Visible characters of a decorated error page with the error in its heading (Cloudflare's has about 800). Larger: an
article titled after the error counts as one. Smaller: decorated error pages are missed."""

_TAG = re.compile(
    r"(?P<comment><!--.*?(?:-->|\Z))"
    r"|<(?P<unseen>script|style|template|svg)(?![a-z0-9])[^>]*(?:>|\Z).*?(?:</(?P=unseen)[^>]*(?:>|\Z)|\Z)"
    r"|<(?P<closing>/?)(?P<name>[a-z][a-z0-9]*)[^>]*(?:>|\Z)"
    r"|<[!?][^>]*(?:>|\Z)",
    re.DOTALL,
)
"""A comment, an element that is not shown, or a tag; each may end with the page, as in a browser, so that no part of it
is scanned twice."""
_HEADINGS = ("title", "h1")


def error_page_phrase(content_type: str | None, body: bytes) -> str | None:
    """The phrase that identifies *body* as a gateway's error page; None when it is not one."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    text = body.decode("utf-8", errors="replace").lower()
    if media_type in ("text/html", "application/xhtml+xml") or (media_type in ("", "text/plain") and _is_html(text)):
        shown, headings = _read(text)
        if len(shown) <= HARDLY_ANY_TEXT:
            return _phrase_in(shown)
        return _phrase_in(headings) if len(shown) <= LITTLE_TEXT else None
    if media_type in ("", "text/plain"):
        plain = _squeezed(text)
        return _phrase_in(plain) if len(plain) <= HARDLY_ANY_TEXT else None
    return None


def _is_html(text: str) -> bool:
    return text.lstrip("\ufeff \t\r\n").startswith(("<!doctype html", "<html"))


def _phrase_in(text: str) -> str | None:
    found = _PHRASE.search(text)
    return found.group() if found else None


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _read(html: str) -> tuple[str, str]:
    """The visible text of *html* (lower case), and the part of it that is in the title and first-level headings."""
    pieces, headings = list[str](), list[str]()
    heading, at = None, 0
    for tag in _TAG.finditer(html):
        piece = html[at : tag.start()] + ("" if tag["comment"] else " ")  # a tag separates words
        pieces.append(piece)
        headings.append(piece if heading else "")
        at = tag.end()
        if tag["name"] in _HEADINGS and not tag["closing"]:
            heading = tag["name"]
        elif tag["name"] == heading:
            heading = None
    pieces.append(html[at:])
    headings.append(html[at:] if heading else "")
    return _shown(pieces), _shown(headings)


def _shown(pieces: list[str]) -> str:
    text = "".join(pieces)
    try:
        return _squeezed(unescape(text))
    except ValueError:  # a character reference with more digits than Python converts
        return _squeezed(text)
