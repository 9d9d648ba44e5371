"""How much of our patience one client may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most a request may take. Honest clients stay far below all of them; the rest only hold connections open."""

    connections: int = 10_000
    """Of all callers together; `handles.py` says how many this process can take."""
    headers_within_seconds: float = 10.0
    """From the connection, or the first byte of a later request, to the last header."""
    header_bytes: int = 64 * 1024
    body_piece_within_seconds: float = 10.0
    """How long the next piece of a body may take to arrive."""
    body_within_seconds: float = 60.0
    """How long all of it may take: a megabyte takes a telephone line two minutes, and an honest body is a kilobyte."""
    body_bytes: int = 1024 * 1024
