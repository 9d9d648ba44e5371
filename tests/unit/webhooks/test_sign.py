"""Signatures, checked by the official library and by hand."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from corral.domain.errors import SettingsError
from corral.webhooks.sign import headers, signing_key

SENT_AT = datetime(2030, 1, 1, 12, 0, 0, 900_000, tzinfo=UTC)
BODY = b'{"id":"evt_1"}'


def test_the_headers_are_those_receivers_of_the_original_know() -> None:
    """Computed by hand: printf %s '{"id":"evt_1"}' | openssl dgst -sha256 -hmac correct-horse."""
    signed = headers(BODY, message_id="evt_1", sent_at=SENT_AT, key=signing_key("correct-horse"))

    assert signed == {
        "webhook-id": "evt_1",
        "webhook-timestamp": "1893499200",
        "webhook-signature": "v1,j6h1f6ISt/JEULQFAYSlG3o644+qdUvRFYW+uoOD1QM=",
        "X-Webhook-Signature": "sha256=668f2126ad8d75b8ab8b17669cb39967337224b1f08d023c9452aa4a8fd1bb38",
        "X-Webhook-Timestamp": "1893499200",
    }


def test_without_a_secret_a_message_is_named_but_not_signed() -> None:
    """Receivers still need the id to recognise a repetition."""
    assert headers(BODY, message_id="evt_1", sent_at=SENT_AT, key=None) == {
        "webhook-id": "evt_1",
        "webhook-timestamp": "1893499200",
    }


@pytest.mark.parametrize("encoded", ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "c2VjcmV0MQ==", "c2VjcmV0MQ"])
def test_a_marked_secret_is_base64_with_or_without_padding(encoded: str) -> None:
    """As the official libraries read it."""
    assert signing_key(f"whsec_{encoded}") == base64.b64decode(encoded + "==")


def test_any_other_secret_is_its_bytes() -> None:
    """Handlers of the original use the text itself."""
    assert signing_key("pässword") == b"p\xc3\xa4ssword"


@pytest.mark.parametrize("secret", ["whsec_", "whsec_===", "whsec_!!!!", "whsec_abcde", "whsec_a-b_cdef", "whsec_äöü"])
def test_a_secret_no_receiver_could_read_is_refused(secret: str) -> None:
    """Signing with a guess would fail at every receiver, silently."""
    with pytest.raises(SettingsError, match="WEBHOOK_SECRET") as refusal:
        signing_key(secret)

    assert secret not in refusal.value.message or secret == "whsec_"


def test_the_official_library_signs_alike() -> None:
    """One message, two programs, one signature."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    signed = headers(BODY, message_id="evt_1", sent_at=SENT_AT, key=signing_key(secret))

    assert signed["webhook-signature"] == Webhook(secret).sign("evt_1", SENT_AT, BODY.decode())
