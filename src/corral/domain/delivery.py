"""One event to be sent to one receiver."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType

from corral.domain.events import EventType
from corral.domain.instance import InstanceId

DeliveryId = NewType("DeliveryId", int)


class DeliveryStatus(StrEnum):
    """The state of a delivery."""

    PENDING = "pending"
    """To be sent, or sent again."""
    DELIVERED = "delivered"
    FAILED = "failed"
    """Refused permanently, or out of attempts."""
    STOPPED = "stopped"
    """The receiver asked for no more events of this instance."""


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
    instance_id: InstanceId
    host: str
    status: DeliveryStatus
    attempts: int
    next_at: datetime | None
    """When it is sent next; None when it is not sent again."""
    created_at: datetime
    ended_at: datetime | None
    history: tuple[DeliveryAttempt, ...] = ()
    """The last attempts, newest first."""
