"""
One event to be sent to one receiver, and the formats that receivers read.

The format is a part of the stored address (`slack+https://…`) and not a field beside it: every record that keeps an
address keeps its format too, and a process of an earlier release refuses such an address instead of sending a message
that the receiver cannot read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NewType

from corral.domain.events import EventType
from corral.domain.instance import InstanceId

DeliveryId = NewType("DeliveryId", int)


class WebhookFormat(StrEnum):
    """What a receiver reads."""

    STANDARD = "standard"
    """The event and the instance as JSON, signed as Standard Webhooks."""
    SLACK = "slack"
    """A message for an incoming webhook of Slack."""
    DISCORD = "discord"
    """A message for a webhook of Discord."""


NOT_FOR_CHAT: Final = frozenset(
    {
        EventType.CREATED,
        EventType.STARTING,
        EventType.RUNNING,
        EventType.HEALTH_CHECKING,
        EventType.STARTUP_INITIATED,
        EventType.STARTUP_COMPLETED,
        EventType.LABELS_CHANGED,
        EventType.LEASE_CHANGED,
    }
)
"""Events that are not sent to people: what they requested themselves, and steps on the way to another event."""


def receiver_address(url: str, chosen: WebhookFormat) -> str:
    """The address to store for *url*, which begins with http:// or https://, and its format."""
    return url if chosen is WebhookFormat.STANDARD else f"{chosen}+{url}"


def receiver_parts(address: str) -> tuple[WebhookFormat, str]:
    """The format and the URL of a stored address."""
    name, plus, url = address.partition("+")
    is_chat = bool(plus) and name in {WebhookFormat.SLACK, WebhookFormat.DISCORD}
    return (WebhookFormat(name), url) if is_chat else (WebhookFormat.STANDARD, address)


def is_sent(event: EventType, address: str) -> bool:
    """Whether *event* is sent to *address*."""
    if event is EventType.CHANGED:
        return False
    return event not in NOT_FOR_CHAT or receiver_parts(address)[0] is WebhookFormat.STANDARD


class DeliveryStatus(StrEnum):
    """The state of a delivery."""

    PENDING = "pending"
    """To be sent, or sent again."""
    DELIVERED = "delivered"
    FAILED = "failed"
    """Refused permanently, or out of attempts."""
    STOPPED = "stopped"
    """The receiver asked for no more events of this instance, or of this budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """The result of sending it once."""

    at: datetime
    http_status: int | None
    """None when there was no answer."""
    duration_ms: int
    error: str | None
    """Why it was not delivered: a category and a sentence, neither with any part of the URL."""
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A delivery as the API shows it; of the receiver's address, which may be secret, only the host."""

    id: DeliveryId
    event_id: str
    seq: int | None
    """None until the event has been read for the first time."""
    event: EventType
    subject: str
    """The id of the instance, or what else the event is about."""
    instance_id: InstanceId | None
    host: str
    status: DeliveryStatus
    attempts: int
    next_at: datetime | None
    """When it is sent next; None when it is not sent again."""
    created_at: datetime
    ended_at: datetime | None
    history: tuple[DeliveryAttempt, ...] = ()
    """The last attempts, newest first."""
