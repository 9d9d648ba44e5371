"""The routes of instances, served: everything from the socket to the database, with a shop for a provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from corral.api.http.limits import Limits
from corral.api.http.request_readers import RequestReader
from corral.api.routes.adoption import AdoptionServices
from corral.api.routes.instances import InstanceServices
from corral.api.routes.listing import ListingServices
from corral.api.routes.orphans import OrphanServices
from corral.base.settings import ListingSettings
from corral.cloud.port import Cloud
from corral.domain.instance import Instance
from corral.domain.lifecycle.decide import Policy
from corral.domain.observation.adoption import Adoption
from corral.domain.requests.create import CreateDefaults
from corral.engine.commands.adopt import AdoptInstance
from corral.engine.events.publisher import EventPublisher
from corral.engine.ids import random_id
from corral.engine.maintenance.orphans import OrphanRule
from corral.engine.maintenance.stuck import StuckSweep
from corral.engine.observe.observations import Observations
from corral.engine.queries.cache_invalidation import CacheInvalidation
from corral.engine.queries.instance_details import InstanceDescriber
from corral.engine.queries.merged_listing import MergedListing
from corral.engine.queries.provider_name_lookup import ProviderNameLookup
from corral.store.session.database import Database
from corral.store.tables import instances
from corral.webhooks.guard import AddressGuard
from support.command_env import REGIONS, CommandEnv
from support.describer import VIEW, a_describer
from support.fleets import a_fleet
from support.known import altered
from support.service import Answer, Service, serving

WISH: dict[str, Any] = {"name": "trainer", "productName": "RTX 4090 24GB", "templateId": 204511, "gpuNum": "2"}

INSTALLATION = "0a1b2c"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApi:
    """A served desk."""

    service: Service
    env: CommandEnv
    looks: list[datetime]
    """When the provider was looked at."""

    async def request_create(self, **fields: object) -> Answer:
        return await self.service.ask("POST", "/api/instances", json={**WISH, **fields})

    async def get(self, path: str) -> Answer:
        return await self.service.ask("GET", path)

    async def change(self, instance_id: str, **fields: Any) -> Instance:
        """As the engine would, without the rest of it."""
        async with self.env.database.transaction() as connection:
            found = await instances.load(connection, instance_id)
            assert found is not None
            changed = altered(found, **fields)
            assert await instances.update(changed, wake_at=None).run(connection)
            return instances.updated(changed)


def listing_services(env: CommandEnv, cloud: Cloud, describer: InstanceDescriber, **settings: bool) -> ListingServices:
    """The merged listing over *env*'s database; *settings* by the names of the environment."""
    sightings = Observations(
        database=env.database,
        queue=env.queue,
        clock=env.clock,
        policy=Policy(),
        installation=INSTALLATION,
        tell=EventPublisher(env.queue).tell,
    )
    listing = MergedListing(
        cloud=cloud,
        database=env.database,
        caches=env.caches,
        sightings=sightings,
        clock=env.clock,
        describer=describer,
    )
    return ListingServices(listing=listing, settings=ListingSettings.model_validate(settings), clock=env.clock)


def adopt_instance(env: CommandEnv, cloud: Cloud) -> AdoptInstance:
    return AdoptInstance(
        cloud=cloud,
        catalog=env.catalog,
        database=env.database,
        queue=env.queue,
        tell=EventPublisher(env.queue).tell,
        caches=env.caches,
        clock=env.clock,
        installation=INSTALLATION,
        new_id=random_id,
    )


def instance_services(
    env: CommandEnv, looks: list[datetime], ready_word: str, namesakes: ProviderNameLookup | None = None
) -> InstanceServices:
    defaults = CreateDefaults(region="CN-HK-01", regions=REGIONS)
    return InstanceServices(
        commands=env.commands,
        changes=env.new_changes(namesakes),
        orders=RequestReader(defaults, AddressGuard(clock=env.clock, allow_private=False)),
        reading=env.reading,
        describer=a_describer(env.database, env.clock, listings=looks, view=replace(VIEW, ready_word=ready_word)),
    )


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
    limits: Limits | None = None,
) -> AsyncGenerator[ServedApi]:
    """Serve for as long as this is open; *caches* and *listing* are settings, by the names of the environment."""
    env, looks = CommandEnv(database, cloud=cloud, caches=caches), list[datetime]()
    adopting = adopt_instance(env, cloud or env.stub_catalog)
    namesakes = (
        ProviderNameLookup(cloud=cloud or env.stub_catalog, adopting=adopting, adoption=Adoption()) if lookup else None
    )
    api = instance_services(env, looks, ready_word, namesakes)
    async with serving(
        database,
        env.registry,
        limits=limits,
        caches=CacheInvalidation(env.caches, database),
        instances=api,
        listing=listing_services(env, cloud or env.stub_catalog, api.describer, **(listing or {})),
        adoption=AdoptionServices(adopting=adopting, orders=api.orders, describer=api.describer),
        orphans=OrphanServices(
            database=database,
            stuck=StuckSweep(database=database, clock=env.clock),
            view=api.describer.view,
            rule=orphans,
        ),
        fleet=a_fleet(database, env.queue, env.clock),
        ready_word=ready_word,
    ) as service:
        yield ServedApi(service=service, env=env, looks=looks)
