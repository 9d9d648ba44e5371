"""What the job of an instance shows to people; the job itself reads the instance's id and nothing else."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from corral.domain.instance import Instance
from corral.domain.timing import iso


def about(instance: Instance) -> dict[str, object]:
    """Its ids, since when it is in its phase, how long it may take from there, and the host that is sent webhooks."""
    shown: dict[str, object] = {"instanceId": instance.id, "startTime": iso(instance.phase_since)}
    if instance.provider_id is not None:
        shown["novitaInstanceId"] = instance.provider_id
    if instance.deadline_at is not None:
        shown["maxWaitTime"] = max(0, (instance.deadline_at - instance.phase_since) // timedelta(milliseconds=1))
    if instance.webhook_target is not None:
        shown["webhookHost"] = host_of(instance.webhook_target)
    return shown


def host_of(url: str) -> str:
    """The part of *url* that may be shown: the rest may hold secrets."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
