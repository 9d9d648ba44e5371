"""Messages for chats: within the documented limits, and without any markup, mention or link of others."""

from __future__ import annotations

import html
import re
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.events import EventType
from corral.views.chat.discord import discord_body
from corral.views.chat.message import chat_message
from corral.views.chat.slack import slack_body
from corral.views.chat.text import BREAK, ELLIPSIS, fitted, plain
from corral.views.event import EventDetails, EventError

HOSTILE = ["@everyone", "<!channel>", "<@U123>", "<https://evil.example|click>", "[a](https://evil.example)", "**b**"]
HOSTILE += [
    "`code`",
    "||spoiler||",
    "# title",
    "www.evil.example",
    "discord.gg/abc",
    "> quote",
    "&lt;!here&gt;",
    "\u202etxt",
    "\u0000",
    "\n\n",
    "\\",
    "😀",
    "",
]
words = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(HOSTILE), max_size=8).map(" ".join))
texts = st.builds(lambda text, times: text * times, words, st.sampled_from([1, 1, 2, 60]))
"""Some are longer than a chat accepts."""
events = st.builds(
    EventDetails,
    id=st.just("evt_" + "0" * 32),
    seq=st.just(1),
    event=st.sampled_from(EventType),
    instance_id=st.just("inst_a1"),
    novita_instance_id=st.none(),
    status=st.just("ready"),
    previous_status=st.sampled_from([None, "ready", "running"]),
    timestamp=st.just("2030-01-01T00:00:00.000Z"),
    elapsed_time=st.none(),
    operation_id=st.just("op_a1"),
    reason=texts,
    error=st.none() | st.builds(EventError, code=st.just("CREATE_FAILED"), message=texts),
    labels=st.dictionaries(words, texts, max_size=4) | st.just({f"k{number}": "v" * 63 for number in range(40)}),
    data=st.fixed_dictionaries({"name": texts}, optional={"endsAt": texts, "dataKeptUntil": texts}),
)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


@given(events)
def test_slack_reads_every_message_as_plain_text(event: EventDetails) -> None:
    """By the documented limits of text objects and blocks: else Slack refuses the whole message."""
    body: dict[str, Any] = msgspec.json.decode(slack_body(chat_message(event, None)))

    assert set(body) == {"text", "mrkdwn", "unfurl_links", "unfurl_media", "blocks"}
    assert {body["mrkdwn"], body["unfurl_links"], body["unfurl_media"]} == {False}
    assert len(body["blocks"]) <= 50
    header, reason, facts, context = body["blocks"]
    assert [block["type"] for block in body["blocks"]] == ["header", "section", "section", "context"]
    assert 1 <= len(facts["fields"]) <= 10
    assert len(context["elements"]) <= 10
    shown = [(header["text"], 150), (reason["text"], 3000), *((each, 2000) for each in facts["fields"])]
    shown += [(each, 2000) for each in context["elements"]]
    for text, most in [*shown, ({"type": "plain_text", "text": body["text"], "emoji": False}, 4000)]:
        assert (text["type"], text["emoji"]) == ("plain_text", False)
        assert 1 <= units(text["text"]) <= most
        assert text["text"].strip()
        assert not set(text["text"]) & set("<>")
        assert re.fullmatch(r"(?:[^&]|&amp;|&lt;|&gt;)*", text["text"])
        _is_harmless(html.unescape(text["text"]))


@given(events)
def test_discord_notifies_no_one_and_shows_plain_text(event: EventDetails) -> None:
    """By the documented limits, also that of an embed as a whole: else Discord refuses the whole message."""
    body: dict[str, Any] = msgspec.json.decode(discord_body(chat_message(event, None)))

    assert set(body) == {"content", "allowed_mentions", "embeds"}
    assert body["allowed_mentions"] == {"parse": []}
    (embed,) = body["embeds"]
    fields = embed["fields"]
    assert len(fields) <= 25
    marked = [(body["content"], 2000), (embed["description"], 4096), *((each["value"], 1024) for each in fields)]
    plain_texts = [(embed["footer"]["text"], 2048), *((each["name"], 256) for each in fields)]
    for text, most in marked + plain_texts:
        assert 1 <= units(text) <= most
        assert text.strip()
    for text, _ in marked:
        assert re.fullmatch(r"(?:\\[^0-9A-Za-z\s]|[^\\*_~`|<>#\[\]()+-])*", text), text
        _is_harmless(unescaped(text))
    counted = [
        embed["description"],
        embed["footer"]["text"],
        *(each[key] for each in fields for key in each if key != "inline"),
    ]
    assert sum(map(units, counted)) <= 6000


def _is_harmless(text: str) -> None:
    assert "://" not in text
    assert not re.search(r"\w\.[^\W\d]", text), text
    assert not re.search(rf"@(?!{BREAK}|{ELLIPSIS}$)", text)
    assert all(char == BREAK or char.isprintable() for char in text), text


@given(texts, st.integers(2, 60))
def test_a_text_is_cut_between_characters(text: str, most: int) -> None:
    """An escaped character stays whole, and what is there is the beginning of the text."""
    cut = fitted(text, most, lambda char: f"\\{char}" if char in "*_" else char)

    assert units(cut) <= most
    begins = re.sub(r"\\([*_])", r"\1", cut.removesuffix(ELLIPSIS)) if cut != text else text
    assert text.startswith(begins) or "\\" in text


@given(texts)
def test_a_harmless_text_stays_what_it_is(text: str) -> None:
    """It is one line, not empty, and only what could act is broken up."""
    once = plain(text)

    assert once
    assert "\n" not in once
    assert once == once.strip()
    assert plain("trainer-1 in CN-HK-01: 2 x RTX. 0.35 USD") == "trainer-1 in CN-HK-01: 2 x RTX. 0.35 USD"
