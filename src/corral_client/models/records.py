"""Responses about the caller, orphans, webhook deliveries and the audit log, typed."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Identity(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who the service takes the caller for."""

    name: str
    """Of the key, or of the user that a proxy signed in; `local` without either on the machine of the service."""
    role: str
    """viewer, operator or admin."""
    key_required: bool = True
    """Whether a caller at this address needs a key."""
    via_proxy: bool = False
    """Whether a proxy that the service trusts signed the caller in."""


class Orphan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A machine that carries this installation's mark and belongs to no record."""

    novita_instance_id: str
    name: str
    instance_id: str
    """The instance that it was made for, by its name."""
    kind: str
    status: str
    first_seen_at: datetime
    region: str | None = None
    price: float | None = None
    action: str
    """What is done with it: report or delete."""
    reason: str


class StuckInstance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance that should have changed by now."""

    instance_id: str
    status: str
    since: datetime
    reason: str
    next_step: str


class OrphanReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Orphans and stuck instances, the oldest first."""

    orphans: list[Orphan]
    stuck: list[StuckInstance]


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One attempt to deliver; `http_status` is None when the receiver did not answer."""

    at: datetime
    http_status: int | None = None
    duration_ms: int = 0
    error: str | None = None
    fate: str = ""


class Delivery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event on its way to one receiver."""

    id: str
    event_id: str
    seq: int | None = None
    event: str
    instance_id: str | None = None
    """None: the event is not about one instance."""
    host: str
    status: str
    attempts: int
    next_attempt_at: datetime | None = None
    created_at: datetime
    ended_at: datetime | None = None
    history: list[DeliveryAttempt] = []


class DeliveryPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of deliveries."""

    deliveries: list[Delivery]


class AuditLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One call that could change something."""

    number: int
    at: datetime
    who: str
    key_id: str | None = None
    role: str | None = None
    method: str
    route: str | None = None
    path: str
    instance_id: str | None = None
    address: str
    status: int
    error_code: str | None = None
    request_id: str


class AuditPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Some lines, oldest first."""

    entries: list[AuditLine]
    next_after: int
