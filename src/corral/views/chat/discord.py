"""
The body for a webhook of Discord: `content`, which notifications show, and one embed.

`allowed_mentions` lets nothing notify anyone, and a backslash before each character of its markup makes it plain.
"""

from __future__ import annotations

from typing import Final

import msgspec

from corral.views.chat.message import ChatMessage, Tone
from corral.views.chat.text import fitted, replacing

MOST_CONTENT: Final = 2000
MOST_DESCRIPTION: Final = 2000
MOST_FIELDS: Final = 8
MOST_VALUE: Final = 400
MOST_FOOTER: Final = 500
"""
Discord accepts 2000, 4096, 25, 1024 and 2048, but 6000 characters in all of an embed: these add up to less. A message
with more is refused as a whole.
"""

_COLOURS: Final = {Tone.GOOD: 0x2E7D32, Tone.BAD: 0xC62828, Tone.WARNING: 0xF9A825, Tone.NEUTRAL: 0x607D8B}
_escape = replacing({char: f"\\{char}" for char in "\\*_~`|<>#[]()-+"})


def discord_body(message: ChatMessage) -> bytes:
    """*message* as Discord reads it."""
    return msgspec.json.encode(
        {
            "content": fitted(message.headline, MOST_CONTENT, _escape),
            "allowed_mentions": {"parse": []},
            "embeds": [
                {
                    "description": fitted(message.reason, MOST_DESCRIPTION, _escape),
                    "color": _COLOURS[message.tone],
                    "timestamp": message.timestamp,
                    "fields": [
                        {"name": title, "value": fitted(value, MOST_VALUE, _escape), "inline": True}
                        for title, value in message.facts[:MOST_FIELDS]
                    ],
                    "footer": {"text": fitted(message.origin, MOST_FOOTER)},
                }
            ],
        }
    )
