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
from dataclasses import dataclass, field
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

_UNSEEN = ("script", "style", "template", "svg")
_HEADINGS = ("title", "h1")


def error_page_phrase(content_type: str | None, body: bytes) -> str | None:
    """The phrase that identifies *body* as a gateway's error page; None when it is not one."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    text = body.decode("utf-8", errors="replace").lower()
    if media_type in ("text/html", "application/xhtml+xml") or (media_type in ("", "text/plain") and _is_html(text)):
        page = _read(text)
        if len(page.text) <= HARDLY_ANY_TEXT:
            return _phrase_in(page.text)
        return _phrase_in(page.headings) if len(page.text) <= LITTLE_TEXT else None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """The visible text of an HTML page, with its title."""

    text: str
    headings: str


@dataclass(slots=True)
class _PageText:
    """The text collected so far, and the current heading."""

    pieces: list[str] = field(default_factory=list[str])
    headings: list[str] = field(default_factory=list[str])
    heading: str | None = None

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        if self.heading is not None:
            self.headings.append(piece)

    def tag(self, name: str, *, closing: bool) -> None:
        """Handle a tag: it separates words, and may begin or end a heading."""
        self.add(" ")
        if name in _HEADINGS and not closing:
            self.heading = name
        elif name == self.heading:
            self.heading = None


def _read(html: str) -> _Page:
    """The text of *html* (lower case), in one pass whose cost is linear for any markup."""
    found = _PageText()
    at = 0
    while (opening := html.find("<", at)) >= 0:
        found.add(html[at:opening])
        if html.startswith("<!--", opening):
            at = _past("-->", html, opening + 4)
            continue
        name = _tag_name(html, opening + 1)
        closing = html.startswith("</", opening)
        if not name and not html.startswith(("<!", "<?"), opening):
            found.add("<")  # "a < b" is text
            at = opening + 1
            continue
        found.tag(name, closing=closing)
        at = _past(">", html, opening)
        if name in _UNSEEN and not closing:
            at = _past(">", html, _past(f"</{name}", html, at))
    if at < len(html):
        found.add(html[at:])
    return _Page(text=_shown(found.pieces), headings=_shown(found.headings))


def _shown(pieces: list[str]) -> str:
    text = "".join(pieces)
    try:
        return _squeezed(unescape(text))
    except ValueError:  # a character reference with more digits than Python converts
        return _squeezed(text)


_TAG_NAME = re.compile(r"/?([a-z][a-z0-9]*)")


def _tag_name(html: str, at: int) -> str:
    found = _TAG_NAME.match(html, at)
    return found.group(1) if found else ""


def _past(mark: str, html: str, at: int) -> int:
    """The index after the next *mark*; the end of *html* when there is none, as in a browser."""
    found = html.find(mark, at)
    return len(html) if found < 0 else found + len(mark)
