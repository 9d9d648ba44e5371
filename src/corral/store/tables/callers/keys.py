"""API keys: their properties, and the digest that a key is found by."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from corral.domain.access import ApiKey, KeyId
from corral.store.session.database import Connection

_COLUMNS = "id, name, access, prefix, created_at, last_used_at, revoked_at"
_ADD = """
INSERT INTO corral_keys (id, name, access, digest, prefix, created_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING
RETURNING id
"""
_REVOKE = f"""
UPDATE corral_keys SET revoked_at = $2 WHERE (id = $1 OR name = $1) AND revoked_at IS NULL
RETURNING {_COLUMNS}
"""  # noqa: S608  # our own column names
_NOTE_USES = """
UPDATE corral_keys SET last_used_at = used.at
FROM unnest($1::text[], $2::timestamptz[]) AS used (id, at)
WHERE corral_keys.id = used.id AND (last_used_at IS NULL OR last_used_at < used.at)
"""


async def add(connection: Connection, key: ApiKey, digest: bytes) -> bool:
    """Store a new key; returns False, and stores nothing, when a key of that name is in use."""
    values = (key.id, key.name, key.access, digest, key.prefix, key.created_at)
    return await connection.fetchval(_ADD, *values) is not None


async def in_use(connection: Connection) -> dict[bytes, ApiKey]:
    """Every key that is not revoked, by its digest."""
    rows = await connection.fetch(f"SELECT digest, {_COLUMNS} FROM corral_keys WHERE revoked_at IS NULL")  # noqa: S608
    return {row["digest"]: _key(row) for row in rows}


async def load_all(connection: Connection) -> list[ApiKey]:
    """All keys, also the revoked, in the order of their creation."""
    rows = await connection.fetch(f"SELECT {_COLUMNS} FROM corral_keys ORDER BY created_at, id")  # noqa: S608
    return [_key(row) for row in rows]


async def revoke(connection: Connection, named: str, now: datetime) -> ApiKey | None:
    """Revoke and return the key with the id or name *named*; None when no key in use has it."""
    row = await connection.fetchrow(_REVOKE, named, now)
    return None if row is None else _key(row)


async def note_uses(connection: Connection, uses: Mapping[KeyId, datetime]) -> None:
    """Store when keys were last used; an older time than the stored one changes nothing."""
    await connection.execute(_NOTE_USES, list(uses), list(uses.values()))


def _key(row: Any) -> ApiKey:
    return msgspec.convert(dict(row), ApiKey)
