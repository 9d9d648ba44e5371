"""Messages to Slack and Discord, by what their documentation says of requests and answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from aiohttp import web
from support.clock.clocks import SteppedClock
from support.engines.event_env import UP, EventEnv
from support.engines.outbox import run_out, sent
from support.provider.upstream import upstream

from corral.domain.delivery import DeliveryStatus, WebhookFormat, receiver_address
from corral.domain.errors import Failure
from corral.domain.instance import Instance
from corral.domain.lifecycle.phases import Phase
from corral.engine.events.webhook_sender import WebhookSender

NAME = "<!channel> @everyone *x*"


class Chat:
    """Answers as the chats do: 200 `ok` or 204, and 429 with how long to wait."""

    def __init__(self, *answers: web.Response) -> None:
        self.answers = list(answers)
        self.requests: list[web.Request] = []
        self.bodies: list[dict[str, Any]] = []
        self.address = ""

    def url(self, chosen: WebhookFormat) -> str:
        return receiver_address(f"{self.address}/services/T0/B0/token", chosen)

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(msgspec.json.decode(await request.read()))
        self.requests.append(request)
        return self.answers.pop(0) if self.answers else web.Response(status=204)


async def failed(room: EventEnv, url: str) -> Instance:
    """An instance that was ready, and then failed for a reason of the provider's."""
    (made,) = await room.create("a1", url=url)
    up = await room.move(made, *UP)
    return await room.move(up, Phase.FAILED, failure=Failure(code="CREATE_FAILED", message=f"no {NAME}"))


@pytest.mark.parametrize("chosen", [WebhookFormat.SLACK, WebhookFormat.DISCORD])
async def test_people_get_what_matters_in_order_and_unsigned(
    room: EventEnv, deliveries: WebhookSender, chosen: WebhookFormat
) -> None:
    """Neither the steps on the way up, nor headers that a chat cannot verify."""
    chat = Chat(web.Response(text="ok"))
    async with upstream(chat.answer) as chat.address:
        await failed(room, chat.url(chosen))
        assert await sent(deliveries) is None
    found, _ = await deliveries.page(instance_id=None, status=None, limit=10, offset=0)

    titles = [body["text"] if chosen is WebhookFormat.SLACK else body["content"] for body in chat.bodies]
    assert [title.split(":")[0] for title in titles] == ["a1 is ready", "a1 failed"]
    assert [delivery.status for delivery in found] == [DeliveryStatus.DELIVERED] * 2
    assert {delivery.host for delivery in found} == {"127.0.0.1"}
    for request in chat.requests:
        assert request.path == "/services/T0/B0/token"
        assert request.content_type == "application/json"
        assert not [name for name in request.headers if "webhook" in name.lower()]


async def test_the_shape_is_the_documented_one(room: EventEnv, deliveries: WebhookSender) -> None:
    """With what the provider and users wrote, as plain text."""
    slack, discord = Chat(), Chat()
    async with upstream(slack.answer) as slack.address, upstream(discord.answer) as discord.address:
        instance = await failed(room, slack.url(WebhookFormat.SLACK))
        await sent(deliveries)
        (other,) = await room.create("b1", url=discord.url(WebhookFormat.DISCORD))
        up = await room.move(other, *UP)
        await room.move(up, Phase.FAILED, failure=Failure(code="CREATE_FAILED", message=f"no {NAME}"))
        await sent(deliveries, other.id)

    reason = "CREATE_FAILED: no &lt;!channel&gt; @\u200beveryone *x*"
    assert slack.bodies[1]["text"] == f"a1 failed: {reason}"
    assert slack.bodies[1]["blocks"][:2] == [
        {"type": "header", "text": {"type": "plain_text", "text": "a1 failed", "emoji": False}},
        {"type": "section", "text": {"type": "plain_text", "text": reason, "emoji": False}},
    ]
    facts = [each["text"] for each in slack.bodies[1]["blocks"][2]["fields"]]
    assert facts[:2] == ["Status: failed (was ready)", "Machine: 1 x RTX 4090 24GB, CN-HK-01"]
    assert instance.id in slack.bodies[1]["blocks"][3]["elements"][0]["text"]

    message = discord.bodies[1]
    assert message["content"] == "b1 failed"
    assert message["allowed_mentions"] == {"parse": []}
    (embed,) = message["embeds"]
    assert embed["description"] == "CREATE\\_FAILED: no \\<!channel\\> @\u200beveryone \\*x\\*"
    assert embed["color"] == 0xC62828
    assert embed["fields"][0] == {"name": "Status", "value": "failed \\(was ready\\)", "inline": True}


@pytest.mark.parametrize("wait", ["30", "29.2"])
async def test_no_instance_sends_to_a_chat_that_asked_for_a_pause(
    room: EventEnv, deliveries: WebhookSender, clock: SteppedClock, wait: str
) -> None:
    """In whole seconds, as Slack says it, or with a fraction; a message that waits uses no attempt."""
    chat = Chat(web.Response(status=429, headers={"Retry-After": wait}))
    async with upstream(chat.answer) as chat.address:
        for made in await room.create("a1", "b1", url=chat.url(WebhookFormat.DISCORD)):
            await room.move(made, *UP)
        first = await sent(deliveries, "inst_a1")
        second = await sent(deliveries, "inst_b1")
        assert len(chat.requests) == 1
        clock.advance(29)
        assert await sent(deliveries, "inst_b1") is not None
        assert len(chat.requests) == 1
        clock.advance(1)
        await run_out(deliveries, clock.advance, "inst_b1")
        await run_out(deliveries, clock.advance, "inst_a1")
    found, _ = await deliveries.page(instance_id=None, status=None, limit=10, offset=0)

    assert first is not None
    assert second is not None
    assert first >= timedelta(seconds=30)
    assert timedelta(seconds=30) <= second <= timedelta(seconds=35)
    assert [(each.instance_id, each.status, each.attempts) for each in found] == [
        ("inst_b1", DeliveryStatus.DELIVERED, 1),
        ("inst_a1", DeliveryStatus.DELIVERED, 2),
    ]
