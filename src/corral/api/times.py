"""How answers write instants."""

from __future__ import annotations

from corral.domain.timestamps import iso

__all__ = ["iso"]
