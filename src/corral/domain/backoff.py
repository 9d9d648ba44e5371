"""How long to wait before a retry."""

from __future__ import annotations


def delay(attempt: int, *, first: float, most: float, factor: float = 2.0) -> float:
    """Seconds to wait after attempt number *attempt*, the first being 1: *first*, times *factor* each, up to *most*."""
    if attempt < 1:
        raise ValueError(f"attempts are counted from 1, not {attempt}")
    # The exponent is bounded so that a very late attempt cannot overflow; `most` has long been reached by then.
    return min(most, first * factor ** min(attempt - 1, 64))


def jittered(seconds: float, *, spread: float, jitter: float) -> float:
    """*seconds* moved by up to ± *spread* (a share of 1), by *jitter* in [0, 1)."""
    return seconds * (1 + spread * (2 * jitter - 1))
