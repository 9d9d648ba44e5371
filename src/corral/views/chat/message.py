"""What a message to people says about an event, before a chat's format."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from corral.domain.events import EventType
from corral.views.chat.text import plain
from corral.views.event import EventDetails
from corral.views.schemas import InstanceDetails

MOST_LABELS: Final = 16
"""As many as an instance has; those of records of another kind are cut."""


class Tone(Enum):
    """How urgent a message is."""

    GOOD = auto()
    BAD = auto()
    WARNING = auto()
    NEUTRAL = auto()


_NEWS: Final[dict[EventType, tuple[Tone, str]]] = {
    EventType.READY: (Tone.GOOD, "is ready"),
    EventType.FAILED: (Tone.BAD, "failed"),
    EventType.TIMEOUT: (Tone.BAD, "did not become ready in time"),
    EventType.STARTUP_FAILED: (Tone.BAD, "could not be started"),
    EventType.VANISHED: (Tone.BAD, "is gone without a request"),
    EventType.RECLAIM_NOTICE: (Tone.WARNING, "will be reclaimed by the provider"),
    EventType.DATA_EXPIRING: (Tone.WARNING, "will lose its data"),
    EventType.ENDING_SOON: (Tone.WARNING, "will be ended by its lease"),
    EventType.ENDING_CANCELLED: (Tone.NEUTRAL, "will not be ended by its lease after all"),
    EventType.WAITING: (Tone.WARNING, "waits to be created"),
    EventType.STOPPED: (Tone.NEUTRAL, "is stopped"),
    EventType.TERMINATED: (Tone.NEUTRAL, "is gone, as requested"),
    EventType.BUDGET_THRESHOLD: (Tone.WARNING, "is used up to a threshold"),
    EventType.BUDGET_EXHAUSTED: (Tone.BAD, "is spent"),
    EventType.LOW_BALANCE: (Tone.BAD, "has little money left"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message; every text of it is one harmless line, not yet escaped for a format."""

    tone: Tone
    headline: str
    reason: str
    facts: tuple[tuple[str, str], ...]
    """Names, which are ours, and values."""
    origin: str
    """The ids of instance and event, to look them up."""
    timestamp: str


def chat_message(event: EventDetails, instance: InstanceDetails | None) -> ChatMessage:
    """What is said about *event* and *instance* as it was then; an event without words of its own is named."""
    tone, verb = _NEWS.get(event.event, (Tone.NEUTRAL, f"changed ({event.event})"))
    name = instance.name if instance is not None else _subject(event)
    reason = event.reason if event.error is None else f"{event.error.code}: {event.error.message}"
    return ChatMessage(
        tone=tone,
        headline=plain(f"{name} {verb}"),
        reason=plain(reason),
        facts=tuple((title, plain(value)) for title, value in _facts(event, instance)),
        origin=plain(event.id if event.instance_id is None else f"{event.instance_id}, {event.id}"),
        timestamp=event.timestamp,
    )


def _subject(event: EventDetails) -> str:
    """What an event is about whose instance is not known, or that is about none."""
    if event.instance_id is not None:
        return str(event.data.get("name", event.instance_id))
    return f"Budget {event.data['budget']}" if "budget" in event.data else "The account"


def _facts(event: EventDetails, instance: InstanceDetails | None) -> list[tuple[str, str]]:
    if event.status is None:
        amounts = (("Spent", "spent"), ("Limit", "limit"), ("Reserved", "reserved"), ("Balance", "balance"))
        facts = [(title, f"{event.data[key]} USD") for title, key in amounts if key in event.data]
        reset = event.data.get("resetsAt")
        return facts if reset is None else [*facts, ("Begins again", str(reset))]
    before = event.previous_status
    facts = [("Status", event.status if before in {None, event.status} else f"{event.status} (was {before})")]
    for title, key in (("Ends at", "endsAt"), ("Data kept until", "dataKeptUntil")):
        if key in event.data:
            facts.append((title, str(event.data[key])))
    if instance is not None:
        facts.append(("Machine", f"{instance.gpu_num} x {instance.product_name}, {instance.region}"))
        if instance.price is not None:
            facts.append(("Price", f"{instance.price:.2f} USD an hour{'' if instance.billed else ', not billed now'}"))
        if instance.created_by is not None:
            facts.append(("Owner", instance.created_by))
    if event.labels:
        labels = sorted(event.labels.items())[:MOST_LABELS]
        facts.append(("Labels", ", ".join(f"{key}={value}" for key, value in labels)))
    return facts
