"""Which database to speak to: a server's URL, or the socket of the embedded one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseTarget:
    """An address asyncpg can connect to; the URL may hold a password, so it is kept out of `repr`."""

    url: str | None = field(default=None, repr=False)
    host: str | None = None
    user: str | None = None
    database: str | None = None

    def arguments(self) -> dict[str, Any]:
        """The address as keyword arguments of `asyncpg.connect` and `asyncpg.create_pool`."""
        chosen = {"dsn": self.url, "host": self.host, "user": self.user, "database": self.database}
        return {name: value for name, value in chosen.items() if value is not None}

    def named(self, database: str) -> DatabaseTarget:
        """The same server, another database."""
        return replace(self, database=database)
