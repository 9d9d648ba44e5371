"""The format of the webhook in a request body, and its place in the stored address."""

from __future__ import annotations

from typing import Any, Final, cast

from corral.domain.delivery import WebhookFormat, receiver_address
from corral.domain.requests.fields import Field, InvalidFieldError, Problems, Rule, problem

_CODE: Final = "INVALID_WEBHOOK_FORMAT"


def _format(value: object) -> WebhookFormat:
    if not isinstance(value, str) or value not in set(WebhookFormat):
        raise InvalidFieldError(f"must be one of {', '.join(WebhookFormat)}")
    return WebhookFormat(value)


WEBHOOK_FORMAT: Final = Field(
    "webhookFormat",
    _CODE,
    Rule(_format, {"type": "string", "enum": list(WebhookFormat)}),
    "What the receiver at `webhookUrl` reads: `standard` when left out, or a chat message for `slack` or `discord`.",
    "standard",
)


def put_format(raw: object, values: dict[str, Any]) -> Problems:
    """Put the format in *values*, read from *raw*, into the address there; returns the problem of one without a URL."""
    chosen = values.pop("webhook_format", None)
    if chosen is None:
        return ()
    if cast("dict[str, object]", raw).get("webhookUrl") is None:
        return (problem("webhookFormat", _CODE, "is of no use without webhookUrl"),)
    if "webhook_url" in values:
        values["webhook_url"] = receiver_address(values["webhook_url"], chosen)
    return ()
