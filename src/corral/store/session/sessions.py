"""
What every session of ours asks of the server: to end it soon after this process, or its host, is gone.

By default a server notices a host that lost power after two hours; until then the dead session keeps its locks and its
open transaction. The settings are made by a statement, not in the connection's startup packet, because PgBouncer
refuses startup parameters that it does not know. On a Unix socket they have no effect.
"""

from __future__ import annotations

from typing import Any, Final

KEEPALIVE_IDLE_SECONDS: Final = 10
KEEPALIVE_INTERVAL_SECONDS: Final = 5
KEEPALIVE_COUNT: Final = 3
"""A silent host is probed after 10 s and given up 15 s later. Shorter, and a network that is away for a moment ends
sessions; longer, and the locks of a dead host are kept for longer than another leader is promised (30 s)."""
USER_TIMEOUT_MS: Final = 20_000
"""How long the server waits for an answer that it sent to be acknowledged; the same reasons in both directions."""

_PREPARE: Final = f"""
SELECT set_config('tcp_keepalives_idle', '{KEEPALIVE_IDLE_SECONDS}', false),
       set_config('tcp_keepalives_interval', '{KEEPALIVE_INTERVAL_SECONDS}', false),
       set_config('tcp_keepalives_count', '{KEEPALIVE_COUNT}', false),
       set_config('tcp_user_timeout', '{USER_TIMEOUT_MS}', false)
"""


async def prepare(connection: Any, *, seconds: float | None = None) -> None:
    """
    Make a new session end soon after its client; *connection* is asyncpg's, pooled or not.

    Raises TimeoutError when the server does not answer within *seconds*, or else within the connection's own limit.
    """
    await connection.execute(_PREPARE, timeout=seconds)
