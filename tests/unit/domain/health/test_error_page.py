"""Which bodies are a gateway's error page, and which only speak of one."""

from __future__ import annotations

import time

import pytest

from corral.domain.health.error_page import error_page_phrase

NGINX = b"""<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>
<hr><center>nginx/1.25.3</center>\r\n</body>\r\n</html>"""
DECORATED = (
    b"<!DOCTYPE html><html><head><title>app.example | 502: Bad gateway</title><style>"
    + b".a{color:red}" * 500
    + b"</style></head><body><h1>Error</h1>"
    + b"<p>The host does not answer the proxy.</p>" * 30
    + b"</body></html>"
)
ARTICLE = (
    b"<!doctype html><html><head><title>How to fix 502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1>"
    + b"<p>Many readers ask what to do about it, and the answer is long.</p>" * 60
    + b"</body></html>"
)
APPLICATION = (
    b"<!doctype html><html><head><title>Chat</title><script>const texts = ['Bad Gateway', 'Service Unavailable'];"
    b"</script><!-- Internal Server Error --></head><body><div id=root></div></body></html>"
)
LOGIN = b"<html><head><title>Jupyter</title></head><body><form><input type=password></form></body></html>"


@pytest.mark.parametrize(
    ("content_type", "body", "phrase"),
    [
        ("text/html", NGINX, "bad gateway"),
        ("text/html; charset=utf-8", DECORATED, "bad gateway"),
        ("Text/HTML", b"<p>The service is temporarily   unavailable.</p>", "temporarily unavailable"),
        ("text/html", b"<h1>Service<br>Unavailable</h1>", "service unavailable"),
        ("text/html", b"<h1>Gateway&nbsp;Timeout</h1>", "gateway timeout"),
        ("text/html", b"<title>Internal Server Error", "internal server error"),
        ("text/plain", b"upstream connect error or disconnect/reset before headers", "upstream connect error"),
        ("text/plain", b"no healthy upstream", "no healthy upstream"),
        ("text/plain", NGINX, "bad gateway"),
        (None, b"Service Unavailable\n", "service unavailable"),
        (None, b"\n" + NGINX, "bad gateway"),
    ],
)
def test_an_error_page_is_recognised_by_what_it_says(content_type: str | None, body: bytes, phrase: str) -> None:
    """Gateways send these with status 200, too."""
    assert phrase == error_page_phrase(content_type, body)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html", ARTICLE),
        ("text/html", APPLICATION),
        ("text/html", LOGIN),
        ("text/html", b""),
        ("text/html", b"<html><body>" + b"<p>fine</p>" * 200 + b"last week: service unavailable</body></html>"),
        ("text/html", b"<p>1 < 2</p><svg><text>bad gateway</text></svg><template>bad gateway</template>"),
        ("text/html", b"<a title='bad gateway'>ok</a>"),
        ("text/html", b"<script>'bad gateway'"),
        ("text/plain", b"log line\n" * 100 + b"bad gateway"),
        ("text/plain", b"upstream errors: 0"),
        ("text/plain", b"ok"),
        ("application/json", b'{"detail": "bad gateway"}'),
        ("application/javascript", b"// service unavailable"),
        (None, b"\x89PNG\x0d\x0a"),
    ],
)
def test_an_application_that_mentions_errors_is_not_one(content_type: str | None, body: bytes) -> None:
    """An instance must not be kept from being ready by what it writes about."""
    assert error_page_phrase(content_type, body) is None


@pytest.mark.parametrize("digits", [9, 5000])
def test_a_numbered_character_may_have_any_number(digits: int) -> None:
    """More digits than Python makes a number of are no reason to call an application sick, nor to miss an error."""
    page = b"<html><h1>Bad Gateway</h1>&#" + b"9" * digits + b";</html>"

    assert error_page_phrase("text/html", page[:400]) == "bad gateway"
    assert error_page_phrase("text/html", page.replace(b"Bad Gateway", b"Chat")) is None


@pytest.mark.parametrize("piece", [b"<script", b"<!--", b"<", b"</script", b"<title>", b"&#", b"<svg>", b"bad gatewa"])
def test_hostile_markup_costs_no_more_than_its_length(piece: bytes) -> None:
    """The body comes from outside, and is read on the event loop."""
    size = 512 * 1024  # eight times what a check reads, so that a quadratic scan shows
    body = (piece * (size // len(piece) + 1))[:size]
    began = time.perf_counter()

    assert error_page_phrase("text/html", body) is None
    assert time.perf_counter() - began < 10
