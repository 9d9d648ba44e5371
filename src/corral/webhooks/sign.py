"""
Signatures, by which a receiver verifies that a webhook is ours and unchanged.

Two signatures: the one of Standard Webhooks, which receivers verify with the official libraries, and that of the
original system, for handlers written against it. Both use the same key. The timestamp is that of the attempt, not of
the event, so that a receiver may refuse old ones and still accept a late retry.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from datetime import datetime

from corral.domain.errors import SettingsError

BASE64_MARK = "whsec_"


def signing_key(secret: str) -> bytes:
    """
    The key behind *secret*: base64 after `whsec_`, else its UTF-8 bytes.

    Raises SettingsError when the base64 cannot be read, rather than sign with a key no receiver would derive.
    """
    if not secret.startswith(BASE64_MARK):
        return secret.encode()
    encoded = secret.removeprefix(BASE64_MARK).rstrip("=")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)  # the padding is often left out
    except (binascii.Error, ValueError) as error:
        raise SettingsError("WEBHOOK_SECRET: begins with whsec_, but what follows is not base64") from error
    if not key:
        raise SettingsError("WEBHOOK_SECRET: nothing follows whsec_")
    return key


def headers(body: bytes, *, message_id: str, sent_at: datetime, key: bytes | None) -> dict[str, str]:
    """The headers that identify and, with a *key*, sign *body*, sent at this instant as message *message_id*."""
    timestamp = str(int(sent_at.timestamp()))
    identity = {"webhook-id": message_id, "webhook-timestamp": timestamp}
    if key is None:
        return identity
    signed = f"{message_id}.{timestamp}.".encode() + body
    standard = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return identity | {
        "webhook-signature": f"v1,{standard}",
        "X-Webhook-Signature": f"sha256={hmac.digest(key, body, hashlib.sha256).hex()}",
        "X-Webhook-Timestamp": timestamp,
    }
