"""
API keys: created, revoked and verified.

A process caches all keys in use, by digest, for a few seconds, and drops the cache when any process creates or revokes
one; so a request, also one with a wrong key, costs no query, and a revoked key is refused everywhere within the time of
a notification. Without notifications or the database, cached keys stay valid for the TTL; after that every request is
rejected.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.cache.registry import CacheName, CacheRegistry
from corral.domain.access import KEY_BYTES, SHOWN, Access, ApiKey, KeyId, is_key_name, key_digest, key_text
from corral.domain.audit import AuditEntry, command_line_entry
from corral.domain.errors import GoalRefusedError, NotFoundError, SettingsError, StoreUnavailableError
from corral.engine.ids import is_id
from corral.engine.queries.cache_invalidation import forget_on_commit
from corral.store.session.database import Database
from corral.store.tables.callers import audit, keys

NOTE_EVERY: Final = timedelta(minutes=1)
"""How often "last used" is stored; it serves to find unused keys, for which a minute is precise enough."""
_ALL: Final = "all"


class ApiKeys:
    """Verifies keys."""

    def __init__(self, database: Database, caches: CacheRegistry, clock: Clock) -> None:
        self._database = database
        self._held: Cache[Mapping[bytes, ApiKey]] = caches[CacheName.API_KEYS]
        self._clock = clock
        self._uses: dict[KeyId, datetime] = {}

    async def find(self, key: str) -> ApiKey | None:
        """The properties of *key*; None when it is not in use. Raises StoreUnavailableError."""
        found = (await self._held.get(_ALL, self._load)).get(key_digest(key))
        if found is not None:
            self._uses[found.id] = self._clock.now()
        return found

    async def is_in_use(self, key_id: KeyId) -> bool:
        """Whether the key with that id is in use; raises StoreUnavailableError."""
        return any(key.id == key_id for key in (await self._held.get(_ALL, self._load)).values())

    async def run(self) -> None:
        """Store every minute which keys were used."""
        while True:
            await self._clock.sleep(NOTE_EVERY.total_seconds())
            await self.note_uses()

    async def note_uses(self) -> None:
        """Store which keys were used since the last call."""
        uses, self._uses = self._uses, {}
        if uses:
            with contextlib.suppress(StoreUnavailableError):  # the next use will be stored
                async with self._database.connection() as connection:
                    await keys.note_uses(connection, uses)

    async def _load(self) -> Mapping[bytes, ApiKey]:
        async with self._database.connection() as connection:
            return await keys.in_use(connection)


async def create_key(
    database: Database, *, name: str, access: Access, now: datetime, line: AuditEntry | None = None
) -> tuple[ApiKey, str]:
    """
    Create a key, with its audit line; returns its properties, and the key itself, which is stored nowhere.

    *line* is that of the request; None on the command line. Raises GoalRefusedError when a key of that name is in use.
    """
    if not is_key_name(name):
        raise SettingsError(f"{name[:80]!r} cannot name a key: use 1 to 64 letters, digits, '_', '-', '.' and '@'")
    text = key_text(secrets.token_bytes(KEY_BYTES))
    key = ApiKey(id=KeyId(f"key_{secrets.token_hex(6)}"), name=name, access=access, prefix=text[:SHOWN], created_at=now)
    async with database.transaction() as connection:
        if not await keys.add(connection, key, key_digest(text)):
            raise GoalRefusedError(
                f"there is a key named {name!r}: revoke it first, or choose another name", code="KEY_NAME_TAKEN"
            )
        await audit.append([_audit_line("create", key, now, line)]).run(connection)
        await forget_on_commit(connection, CacheName.API_KEYS)
    return key, text


async def revoke_key(database: Database, *, named: str, now: datetime, line: AuditEntry | None = None) -> ApiKey:
    """
    Revoke the key with the id or name *named*, with its audit line; every process refuses it from then on.

    *line* is that of the request; None on the command line. Raises NotFoundError when no key in use is called so.
    """
    async with database.transaction() as connection:
        key = await keys.revoke(connection, named, now) if is_id(named) else None
        if key is None:
            raise NotFoundError(
                f"no key in use is called {named[:80]!r}; `corral keys ls` lists all", code="KEY_NOT_FOUND"
            )
        await audit.append([_audit_line("revoke", key, now, line)]).run(connection)
        await forget_on_commit(connection, CacheName.API_KEYS)
    return key


async def list_keys(database: Database) -> list[ApiKey]:
    """All keys, also the revoked, oldest first."""
    async with database.connection() as connection:
        return await keys.load_all(connection)


def _audit_line(verb: str, key: ApiKey, now: datetime, line: AuditEntry | None) -> AuditEntry:
    """The line of the request, or of the command line, with the key that it is about."""
    about = f"{key.id} {key.name} {key.access.value}"
    if line is None:
        return command_line_entry(f"keys {verb}", about, now)
    return replace(line, path=f"{line.path} {about}")
