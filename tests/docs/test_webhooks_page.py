"""docs/webhooks.md is correct about events."""

from __future__ import annotations

import re
from pathlib import Path

from standardwebhooks import Webhook

from corral.base.clock import SystemClock
from corral.domain.events import EventType
from corral.webhooks.schedule import MOST_TRIES
from corral.webhooks.sign import headers as signed
from corral.webhooks.sign import signing_key

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_every_event_is_documented_in_the_order_of_the_code() -> None:
    assert re.findall(r"^\| `([a-z]+\.\w+)` \|", PAGE, re.MULTILINE) == [event.value for event in EventType]


def test_the_number_of_tries_is_the_one_we_make() -> None:
    assert f"sent again: {MOST_TRIES} times in all" in PAGE


def test_the_example_takes_what_we_send() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    body = b'{"event":"instance.ready"}'
    now = SystemClock().now()
    given = {
        "secret": SECRET,
        "body": body,
        "headers": signed(body, message_id="evt_1", sent_at=now, key=signing_key(SECRET)),
        "Webhook": Webhook,
    }
    exec(example, given)  # noqa: S102  # our own page

    assert given["event"] == {"event": "instance.ready"}
