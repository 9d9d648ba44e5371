"""
Whether the end of an idle instance, which is due, may come yet. Pure.

The provider measures late and Corral may have been away, so at the announced time it is often not known what happened
since the notice. The end then waits for a measurement that shows it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from corral.domain.leases.idle import MOST_LATE, Activity, IdleJudgement
from corral.domain.leases.lease import IdleRule, Notice, Signal

PROMPT: Final = timedelta(seconds=15)
"""How long after its time an end may rest on a measurement made before it, but after the notice. Later, Corral was away
or waits already: only one made at that time or later counts. Longer, and a short outage ends an instance of which
nothing was seen meanwhile; shorter, and a busy moment of Corral delays ends by a minute."""
REPORTED: Final = timedelta(seconds=90)
"""How long an end that was not prompt waits for sessions to report their use, which they do every minute. Shorter, and
a session that was opened in an outage is ended; longer, and an idle machine is billed longer after one."""
PATIENCE: Final = timedelta(minutes=10)
"""How long an end waits for measurements before its notice is cancelled. Shorter, and measurements that come and go
make notices and cancellations; longer, and an end stays announced that does not come."""


def most_late(notice: Notice | None) -> timedelta:
    """How late measurements may be: later for an end that waits for one, so that it does not end just before it."""
    return MOST_LATE if notice is None or notice.awaited_since is None else 2 * MOST_LATE


def is_proven(rule: IdleRule, notice: Notice, judgement: IdleJudgement, now: datetime) -> bool:
    """Whether enough is known to end the instance now."""
    if judgement.activity is not Activity.IDLE:
        return False
    is_prompt = notice.awaited_since is None and now - notice.ends_at <= PROMPT
    if not is_prompt and now < _reported_at(rule, notice, now):
        return False
    if rule.signals == frozenset({Signal.LAST_USED}):
        return True
    needed = notice.given_at if is_prompt else notice.ends_at
    return judgement.measured_at is not None and judgement.measured_at > needed


def is_given_up(notice: Notice, now: datetime) -> bool:
    """Whether the end has waited for too long."""
    return notice.awaited_since is not None and now - notice.awaited_since >= PATIENCE


def look_again_at(rule: IdleRule, notice: Notice, now: datetime) -> datetime:
    """When something may follow without a new measurement, for an end that waits."""
    reported_at = _reported_at(rule, notice, now)
    return reported_at if now < reported_at else (notice.awaited_since or now) + PATIENCE


def _reported_at(rule: IdleRule, notice: Notice, now: datetime) -> datetime:
    """When every session that is open has reported its use."""
    since = notice.awaited_since or now
    return since + REPORTED if Signal.LAST_USED in rule.signals else since
