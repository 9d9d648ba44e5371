"""When the health of an instance is checked again: after a lost job, and after failed checks. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from corral.domain.instance import Instance
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.sighting import Sighting

HEALTH_FAILURES = frozenset({"HEALTH_CHECK_FAILED", "HEALTH_CHECK_TIMEOUT"})
"""Failures that end with a successful health check; the provider reported "running" all the time."""


def check_time(instance: Instance, policy: Policy) -> timedelta:
    """How long one health check and its job may take before the job counts as lost."""
    return timedelta(milliseconds=instance.health_spec.timeout_ms) + policy.lost_job


def until_recheck(instance: Instance, now: datetime, policy: Policy) -> timedelta:
    """How long to wait before an instance that failed its health checks is checked again."""
    checked = instance.phase_since if instance.health is None else instance.health.last_checked_at
    last = max(checked, instance.phase_since)
    wait = max(policy.first_recheck, min(last - instance.phase_since, policy.last_recheck))
    return max(last + wait - now, timedelta(0))


def is_unhealthy(instance: Instance) -> bool:
    """Whether it runs and failed only its health checks."""
    failed = instance.failure is not None and instance.failure.code in HEALTH_FAILURES
    return failed and instance.observation.sighting is Sighting.RUNNING and instance.observation.failure is None
