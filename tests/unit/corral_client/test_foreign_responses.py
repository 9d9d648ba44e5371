"""What the SDK makes of answers that are not Corral's."""

from __future__ import annotations

import pytest

from corral_client.errors import ServerError, error_of
from corral_client.events import StreamDecoder, read_event

UNREADABLE = [b"", b"<html>", b'{"error":{"code":"\xff","message":""}}', b'{"error":' + b"[" * 3000]


@pytest.mark.parametrize("body", UNREADABLE)
def test_an_error_of_a_proxy_is_an_error_like_any_other(body: bytes) -> None:
    """Also one that is not UTF-8, or nested without end."""
    error = error_of(502, {"Retry-After": "3"}, body)

    assert (type(error), error.code, error.retryable, error.retry_after) == (ServerError, "HTTP_502", True, 3.0)


@pytest.mark.parametrize(("header", "said"), [("-5", None), ("5", -5)])
def test_no_wait_is_negative(header: str, said: int | None) -> None:
    """Whether the answer says so or its header."""
    reported = "" if said is None else f',"retryAfter":{said}'
    error = error_of(429, {"Retry-After": header}, f'{{"error":{{"code":"C","message":"m"{reported}}}}}'.encode())

    assert error.retry_after == 0.0


@pytest.mark.parametrize("digits", [10, 400, 5000])
def test_a_pause_of_absurd_length_is_not_taken_at_its_word(digits: int) -> None:
    """The stream continues."""
    stream = b"retry: 2000\ndata: a\n\nretry: " + b"9" * digits + b"\ndata: b\n\n"

    assert [(m.data, m.retry_seconds) for m in StreamDecoder().feed(stream)] == [("a", 2.0), ("b", None)]


@pytest.mark.parametrize("data", ["", "{}", "<html>", "[" * 3000])
def test_a_message_that_is_no_event_raises_our_error(data: str) -> None:
    """Followers of events catch `CorralError`, and no error of the JSON library."""
    with pytest.raises(ServerError, match="UNREADABLE_ANSWER: the stream sent something that is not from Corral"):
        read_event(data)
