"""The routes of instances, served: everything from the socket to the database, with a shop for a provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
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
from corral.engine.queries.merged_listing import MergedListing
from corral.engine.queries.provider_name_lookup import ProviderNameLookup
from corral.store.session.database import Database
from corral.store.tables import instances
from corral.views.instance import InstanceView
from corral.views.listing import encoded
from corral.webhooks.guard import AddressGuard
from support.command_env import REGIONS, Desk
from support.fleets import a_fleet
from support.service import Answer, Service, serving

WISH: dict[str, Any] = {"name": "trainer", "productName": "RTX 4090 24GB", "templateId": 204511, "gpuNum": "2"}

INSTALLATION = "0a1b2c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """A served desk."""

    service: Service
    desk: Desk
    looks: list[datetime]
    """When the provider was looked at."""

    async def wish(self, **fields: object) -> Answer:
        return await self.service.ask("POST", "/api/instances", json={**WISH, **fields})

    async def get(self, path: str) -> Answer:
        return await self.service.ask("GET", path)

    async def change(self, instance_id: str, **fields: Any) -> Instance:
        """As the engine would, without the rest of it."""
        async with self.desk.database.transaction() as connection:
            found = await instances.load(connection, instance_id)
            assert found is not None
            return await instances.write(connection, replace(found, **fields), wake_at=None)


def listing_desk(desk: Desk, cloud: Cloud, showing: InstanceView, **settings: bool) -> ListingServices:
    """The merged listing over *desk*'s database; *settings* by the names of the environment."""
    sightings = Observations(
        database=desk.database,
        queue=desk.queue,
        clock=desk.clock,
        policy=Policy(),
        installation=INSTALLATION,
        tell=EventPublisher(desk.queue).tell,
    )
    listing = MergedListing(
        cloud=cloud,
        database=desk.database,
        caches=desk.caches,
        sightings=sightings,
        clock=desk.clock,
        show=partial(encoded, showing),
    )
    return ListingServices(listing=listing, settings=ListingSettings.model_validate(settings), clock=desk.clock)


def an_adopting(desk: Desk, cloud: Cloud) -> AdoptInstance:
    return AdoptInstance(
        cloud=cloud,
        catalog=desk.catalog,
        database=desk.database,
        queue=desk.queue,
        tell=EventPublisher(desk.queue).tell,
        caches=desk.caches,
        clock=desk.clock,
        installation=INSTALLATION,
        new_id=random_id,
    )


def front_desk(
    desk: Desk, looks: list[datetime], ready_word: str, namesakes: ProviderNameLookup | None = None
) -> InstanceServices:
    defaults = CreateDefaults(region="CN-HK-01", regions=REGIONS)
    return InstanceServices(
        commands=desk.commands,
        errands=desk.new_errands(namesakes),
        orders=RequestReader(defaults, AddressGuard(clock=desk.clock, allow_private=False)),
        reading=desk.reading,
        showing=InstanceView(
            clock=desk.clock,
            estimates=desk.estimates,
            ready_word=ready_word,
            policy=Policy(),
            poll_interval=timedelta(seconds=30),
            last_look_at=lambda: max(looks, default=None),
        ),
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
) -> AsyncGenerator[Front]:
    """Serve for as long as this is open; *caches* and *listing* are settings, by the names of the environment."""
    desk, looks = Desk(database, cloud=cloud, caches=caches), list[datetime]()
    adopting = an_adopting(desk, cloud or desk.shop)
    namesakes = ProviderNameLookup(cloud=cloud or desk.shop, adopting=adopting, adoption=Adoption()) if lookup else None
    front = front_desk(desk, looks, ready_word, namesakes)
    async with serving(
        database,
        desk.registry,
        limits=limits,
        caches=CacheInvalidation(desk.caches, database),
        instances=front,
        listing=listing_desk(desk, cloud or desk.shop, front.showing, **(listing or {})),
        adoption=AdoptionServices(adopting=adopting, orders=front.orders, showing=front.showing),
        orphans=OrphanServices(
            database=database,
            stuck=StuckSweep(database=database, clock=desk.clock),
            showing=front.showing,
            rule=orphans,
        ),
        fleet=a_fleet(database, desk.queue, desk.clock),
        ready_word=ready_word,
    ) as service:
        yield Front(service=service, desk=desk, looks=looks)
