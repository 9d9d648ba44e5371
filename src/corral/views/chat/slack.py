"""
The body for an incoming webhook of Slack: `text`, which notifications show, and `blocks`.

Every text object is of the type `plain_text`, which has no markup; `mrkdwn` and previews of links are off for `text`.
The three characters that Slack's documentation wants escaped everywhere are.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from corral.views.chat.message import ChatMessage
from corral.views.chat.text import fitted, replacing

MOST_TEXT: Final = 4000
MOST_HEADER: Final = 150
MOST_SECTION: Final = 3000
MOST_FIELD: Final = 2000
MOST_FIELDS: Final = 10
MOST_CONTEXT: Final = 2000
"""Lengths and counts of Slack's documentation of messages and of blocks; a longer one is refused as a whole."""

_escape = replacing({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def slack_body(message: ChatMessage) -> bytes:
    """*message* as Slack reads it."""
    fields = [_text(f"{title}: {value}", MOST_FIELD) for title, value in message.facts[:MOST_FIELDS]]
    origin = f"{message.origin}, {message.timestamp}"
    return msgspec.json.encode(
        {
            "text": fitted(f"{message.headline}: {message.reason}", MOST_TEXT, _escape),
            "mrkdwn": False,
            "unfurl_links": False,
            "unfurl_media": False,
            "blocks": [
                {"type": "header", "text": _text(message.headline, MOST_HEADER)},
                {"type": "section", "text": _text(message.reason, MOST_SECTION)},
                {"type": "section", "fields": fields},
                {"type": "context", "elements": [_text(origin, MOST_CONTEXT)]},
            ],
        }
    )


def _text(text: str, most: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": fitted(text, most, _escape), "emoji": False}
