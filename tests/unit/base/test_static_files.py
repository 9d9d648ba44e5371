"""Static files: compressed once, with an ETag for each coding."""

from __future__ import annotations

import gzip

import pytest

from corral.base.static_files import StaticFile, accepts_gzip

SCRIPT = StaticFile.of(b"const answer = 42; " * 100, "text/javascript")


def test_a_client_that_asks_gets_the_compressed_file() -> None:
    """And one that does not, the file; a cache in between must tell them apart."""
    packed = SCRIPT.response(accept_encoding="gzip, br", if_none_match=None)
    plain = SCRIPT.response(accept_encoding=None, if_none_match=None)

    assert (packed.status, packed.headers["content-encoding"]) == (200, "gzip")
    assert gzip.decompress(packed.body) == plain.body == SCRIPT.body
    assert len(packed.body) < len(plain.body) / 10
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert plain.headers["etag"] != packed.headers["etag"]


@pytest.mark.parametrize("accepted", ["gzip", None])
def test_a_client_that_has_it_is_sent_nothing(accepted: str | None) -> None:
    """Only its own coding counts; other tags beside it do not matter."""
    tag = SCRIPT.response(accept_encoding=accepted, if_none_match=None).headers["etag"]
    other = SCRIPT.response(accept_encoding="gzip" if accepted is None else None, if_none_match=None).headers["etag"]

    again = SCRIPT.response(accept_encoding=accepted, if_none_match=f'"x", W/{tag}')
    changed = SCRIPT.response(accept_encoding=accepted, if_none_match=other)

    assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert "content-encoding" not in again.headers
    assert (changed.status, changed.headers["etag"]) == (200, tag)


def test_what_does_not_shrink_is_sent_as_it_is() -> None:
    """Pictures are compressed already."""
    picture = StaticFile.of(gzip.compress(b"picture"), "image/png")

    assert picture.gzipped is None
    assert picture.response(accept_encoding="gzip", if_none_match=None).body == picture.body


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP , deflate", True),
        ("deflate, br", False),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("gzip;q=0.001", True),
        ("gzip;q=much", False),
        ("gzip;ÿ=ÿ,,;", True),
    ],
)
def test_the_header_is_read_as_http_says(header: str | None, accepted: bool) -> None:  # noqa: FBT001
    """With weights, the wildcard, and whatever a client sends instead."""
    assert accepts_gzip(header) is accepted
