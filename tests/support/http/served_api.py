"""The routes of instances, served over HTTP on a real database; the provider has a catalog alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from corral.api.http.limits import Limits
from corral.cloud.port import Cloud
from corral.domain.instance import Instance
from corral.engine.maintenance.orphans import OrphanRule
from corral.store.session.database import Database
from corral.store.tables import instances
from corral.store.tables.costs import usage
from support.engines.command_env import CommandEnv
from support.engines.known import altered
from support.engines.runtime import settings_of
from support.http.service import Answer, Service, serving

CREATE_BODY: dict[str, Any] = {"name": "trainer", "productName": "RTX 4090 24GB", "templateId": 204511, "gpuNum": "2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApi:
    """A served API."""

    service: Service
    env: CommandEnv
    looks: list[datetime]
    """When the provider was looked at."""

    async def request_create(self, **fields: object) -> Answer:
        return await self.service.ask("POST", "/api/instances", json={**CREATE_BODY, **fields})

    async def get(self, path: str) -> Answer:
        return await self.service.ask("GET", path)

    async def change(self, instance_id: str, **fields: Any) -> Instance:
        """As the engine would, without the rest of it."""
        async with self.env.database.transaction() as connection:
            found = await instances.load(connection, instance_id)
            assert found is not None
            changed = altered(found, **fields)
            assert await instances.update(changed, wake_at=None).run(connection)
            for each in usage.write(found, changed, self.env.clock.now()):
                await each.run(connection)
        self.service.parts.answers.forget()  # as the notification of the commit does
        return instances.updated(changed)


@asynccontextmanager
async def opened(
    database: Database,
    *,
    ready_word: str = "ready",
    cloud: Cloud | None = None,
    caches: dict[str, int] | None = None,
    listing: dict[str, bool] | None = None,
    lookup: bool = False,
    orphans: OrphanRule = "report",
    leases: dict[str, str] | None = None,
    login: dict[str, str] | None = None,
    limits: Limits | None = None,
    **parts: Any,
) -> AsyncGenerator[ServedApi]:
    """
    Serve for as long as this is open; *caches*, *listing*, *leases* and *login* are settings, by their names.

    *parts* replace fields of the runtime.
    """
    looks = list[datetime]()
    settings = settings_of(
        **(caches or {}),
        **(listing or {}),
        **(leases or {}),
        **(login or {}),
        CORRAL_READY_STATUS=ready_word,
        CORRAL_ORPHANS=orphans,
        INSTANCE_STARTUP_ENABLE_NAME_LOOKUP=lookup,
    )
    env = CommandEnv(
        database, cloud=cloud, settings=settings, last_listing_at=lambda: max(looks, default=None), **parts
    )
    async with serving(database, engine=env.engine, limits=limits) as service:
        yield ServedApi(service=service, env=env, looks=looks)


async def created(api: ServedApi, **fields: object) -> str:
    """Create an instance with *fields*; returns its id."""
    answer = await api.request_create(**fields)
    assert answer.status == 201, answer
    made: str = answer.json["instanceId"]
    return made
