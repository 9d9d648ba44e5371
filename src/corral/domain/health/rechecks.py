"""When the health of an instance is checked again: after a lost job, and after it failed its checks. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from corral.domain.instance import Instance
from corral.domain.lifecycle.decision import Policy
from corral.domain.observation.sighting import Sighting

HEALTH_FAILURES = frozenset({"HEALTH_CHECK_FAILED", "HEALTH_CHECK_TIMEOUT"})
"""Failures that the provider's word "running" does not heal: it ran all the while. Another health check does."""


def check_time(instance: Instance, policy: Policy) -> timedelta:
    """How long one health check and its job may take before the job counts as lost."""
    return timedelta(milliseconds=instance.health_spec.timeout_ms) + policy.lost_job


def until_recheck(instance: Instance, now: datetime, policy: Policy) -> timedelta:
    """How long an instance that failed its health checks is left alone before it is checked again."""
    checked = instance.phase_since if instance.health is None else instance.health.last_checked_at
    last = max(checked, instance.phase_since)
    patience = max(policy.first_recheck, min(last - instance.phase_since, policy.last_recheck))
    return max(last + patience - now, timedelta(0))


def is_unhealthy(instance: Instance) -> bool:
    """Whether it runs, and failed nothing but its health checks."""
    failed = instance.failure is not None and instance.failure.code in HEALTH_FAILURES
    return failed and instance.observation.sighting is Sighting.RUNNING and instance.observation.failure is None
