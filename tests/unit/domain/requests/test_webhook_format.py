"""The format of a webhook: in request bodies, and in stored addresses."""

from __future__ import annotations

import pytest

from corral.domain.delivery import NOT_FOR_CHAT, WebhookFormat, is_sent, receiver_address, receiver_parts
from corral.domain.events import EventType
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.observation.adoption import Adoption
from corral.domain.requests.action import read_command_options
from corral.domain.requests.create import CreateDefaults, RequestedInstance, read_adoption, read_create_request
from corral.domain.requests.fields import Problems

URL = "https://hooks.slack.com/services/T0/B0/a+b"
DEFAULTS = CreateDefaults(region="CN-HK-01", regions=("CN-HK-01",))
BODY = {"name": "a", "productName": "RTX 4090 24GB", "templateId": "1"}


def read(kind: str, **fields: object) -> str | Problems | None:
    """The stored address of a body of this kind with these fields, or its problems."""
    match kind:
        case "create":
            created = read_create_request({**BODY, **fields}, DEFAULTS)
            return created.request.webhook_url if isinstance(created, RequestedInstance) else created
        case "adopt":
            adopted = read_adoption(fields, DEFAULTS)
            return adopted.webhook_url if isinstance(adopted, Adoption) else adopted
        case _:
            options = read_command_options(fields, HealthCheckSpec())
            return options.webhook_url if isinstance(options, CommandOptions) else options


@pytest.mark.parametrize("kind", ["create", "adopt", "start"])
def test_every_body_with_an_address_takes_its_format(kind: str) -> None:
    """A format without an address, and an unknown one, are problems of the field."""
    assert read(kind) is None
    assert read(kind, webhookUrl=URL) == read(kind, webhookUrl=URL, webhookFormat="standard") == URL
    for chosen in (WebhookFormat.SLACK, WebhookFormat.DISCORD):
        address = read(kind, webhookUrl=URL, webhookFormat=chosen.value)
        assert isinstance(address, str)
        assert receiver_parts(address) == (chosen, URL)
    for fields in ({"webhookUrl": URL, "webhookFormat": "teams"}, {"webhookFormat": "slack"}):
        problems = read(kind, **fields)
        assert isinstance(problems, tuple)
        assert [(p.field, p.code) for p in problems] == [("webhookFormat", "INVALID_WEBHOOK_FORMAT")]
    both = read(kind, webhookUrl=7, webhookFormat="slack")
    assert isinstance(both, tuple)
    assert [p.field for p in both] == ["webhookUrl"]


def test_an_address_of_an_earlier_release_has_the_standard_format() -> None:
    """Also one with a plus sign in it; what only looks like a format is none."""
    for url in ("https://a.example/", "http://a.example/?q=a+b", "https://slack+x@a.example/", "teams+https://a/"):
        assert receiver_parts(url) == (WebhookFormat.STANDARD, url)
        assert receiver_address(url, WebhookFormat.STANDARD) == url


def test_a_chat_gets_what_people_want_to_know() -> None:
    """A new event is sent to both until a decision is made about it."""
    chat = receiver_address(URL, WebhookFormat.SLACK)
    standard = {event for event in EventType if is_sent(event, URL)}

    assert standard == set(EventType) - {EventType.CHANGED}
    assert {event for event in EventType if is_sent(event, chat)} == standard - NOT_FOR_CHAT
    assert EventType.READY not in NOT_FOR_CHAT
    assert EventType.FAILED not in NOT_FOR_CHAT
