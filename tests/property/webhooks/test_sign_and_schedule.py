"""Laws of signing and of trying again."""

from __future__ import annotations

import hashlib
import hmac
import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from corral.base.clock import SystemClock
from corral.webhooks.schedule import LONGEST_RETRY_AFTER, MOST_TRIES, AttemptOutcome, next_delay, outcome_of
from corral.webhooks.sign import headers, signing_key

TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)
IDS = st.from_regex(r"evt_[0-9a-z]{1,26}", fullmatch=True)
SECRETS = st.text(st.characters(codec="utf-8"), min_size=8).filter(lambda secret: not secret.startswith("whsec_"))
ROLLS = st.floats(0, 1, exclude_max=True)


@given(text=TEXTS, message_id=IDS, secret=SECRETS)
def test_the_official_library_accepts_every_message(text: str, message_id: str, secret: str) -> None:
    """Receivers verify with it; it reads the clock, so the message is sent at the present."""
    signed = headers(text.encode(), message_id=message_id, sent_at=SystemClock().now(), key=signing_key(secret))

    assert Webhook(secret.encode()).verify(text, signed, json_parse=False) is None
    body_only = hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
    assert signed["X-Webhook-Signature"] == f"sha256={body_only}"


@given(text=TEXTS, other=TEXTS, message_id=IDS, secret=SECRETS)
def test_the_official_library_refuses_a_changed_message(text: str, other: str, message_id: str, secret: str) -> None:
    """That is what the signature is for."""
    signed = headers(text.encode(), message_id=message_id, sent_at=SystemClock().now(), key=signing_key(secret))

    for changed, name in ((text + "." + other, message_id), (text, message_id + "0")):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret.encode()).verify(changed, signed | {"webhook-id": name}, json_parse=False)


@given(sent_at=st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001  # hypothesis wants bounds without a zone
def test_the_timestamp_is_whole_seconds(sent_at: datetime) -> None:
    """The second of the attempt, never one of the future."""
    stamp = int(headers(b"", message_id="evt_1", sent_at=sent_at, key=None)["webhook-timestamp"])

    assert 0 <= sent_at.timestamp() - stamp < 1


@given(rolls=st.lists(ROLLS, min_size=MOST_TRIES, max_size=MOST_TRIES))
def test_eight_tries_take_about_an_hour(rolls: list[float]) -> None:
    """Whatever the dice say: seven growing pauses, then no more."""
    pauses = [next_delay(attempt, jitter=jitter) for attempt, jitter in enumerate(rolls, start=1)]

    taken = [pause for pause in pauses if pause is not None]
    assert pauses[-1] is None
    assert len(taken) == 7
    assert timedelta(minutes=48) <= sum(taken, timedelta()) <= timedelta(minutes=73)
    assert all(earlier < later * 1.1 for earlier, later in itertools.pairwise(taken))


@given(attempt=st.integers(1, MOST_TRIES - 1), jitter=ROLLS, retry_after=st.timedeltas(timedelta(0), timedelta(days=9)))
def test_a_receiver_may_ask_for_patience_within_reason(attempt: int, jitter: float, retry_after: timedelta) -> None:
    """Never sooner than our own pause, never later than an hour for the asking."""
    ours = next_delay(attempt, jitter=jitter)
    pause = next_delay(attempt, jitter=jitter, retry_after=retry_after)

    assert ours is not None
    assert pause == max(ours, min(retry_after, LONGEST_RETRY_AFTER))


@given(status=st.integers(100, 999))
def test_every_http_status_is_classified(status: int) -> None:
    """The rule in other words than the code's."""
    match status:
        case _ if status // 100 == 2:
            expected = AttemptOutcome.DELIVERED
        case 410:
            expected = AttemptOutcome.STOP
        case 408 | 425 | 429:
            expected = AttemptOutcome.RETRY
        case _ if status // 100 == 4:
            expected = AttemptOutcome.FINAL
        case _:
            expected = AttemptOutcome.RETRY

    assert outcome_of(status) is expected
