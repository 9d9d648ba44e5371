"""How long processes wait for each other in tests: as in production, but a tenth of it."""

from __future__ import annotations

from datetime import timedelta

from corral.store.session.presence import PresenceTimeouts

SHORT = PresenceTimeouts(
    beat=timedelta(seconds=0.1), gone_after=timedelta(seconds=0.4), silent_after=timedelta(seconds=1.5)
)
