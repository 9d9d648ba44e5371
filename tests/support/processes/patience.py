"""How long processes wait for each other in tests: less than in production, enough for a slow machine."""

from __future__ import annotations

from datetime import timedelta

from corral.store.session.presence import PresenceTimeouts

SHORT = PresenceTimeouts(
    beat=timedelta(seconds=0.3), gone_after=timedelta(seconds=1.5), silent_after=timedelta(seconds=3)
)
