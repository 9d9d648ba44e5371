"""What can go wrong with a login."""

from __future__ import annotations

from corral_client import CorralError


class RemoteError(CorralError):
    """A login that cannot be used, or something that is missing on this computer."""
