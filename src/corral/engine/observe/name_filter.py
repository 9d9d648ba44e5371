"""
Lookups by name in the provider's list, and whether their results can be trusted.

The name filter is not documented, and a wrong list is wrong under a filter too. So an empty result counts only if the
same kind of lookup finds a machine that is known to exist.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from corral.cloud.port import Cloud, Listing
from corral.domain.instance import Instance, InstanceId
from corral.domain.observation.matching import attempt_of
from corral.domain.observation.provider_names import ProviderName, name_start, parse_provider_name, provider_name
from corral.domain.observation.sighting import ProviderInstance
from corral.store.session.database import Database
from corral.store.tables import instances

KNOWN_ASKED: Final = 3
"""How many known machines are looked up until one is found. Fewer, and a machine that has just gone suggests that the
filter does not work; more, and a filter that does not work costs more calls."""
SHORTEST_NAME: Final = 6
"""The shortest name of a machine made by others that is looked up by its beginning."""
MOST_LACKING: Final = 4
"""More machines than this that exist and are not listed: the list is wrong about any machine, not about single ones."""
LISTED_FOR_ONE_LACKING: Final = 25
"""And so is a list that lacks more than one of so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFilter:
    """Lookups by name."""

    cloud: Cloud
    database: Database
    installation: str

    async def attempt(self, instance: Instance, attempt: int) -> Listing:
        """The machines that one create attempt made."""
        origin = ProviderName(installation=self.installation, instance_id=instance.id, attempt=attempt)
        return await self.cloud.named(provider_name(origin))

    async def attempts(self, instance_id: InstanceId) -> Listing:
        """The machines that any create attempt for the instance made."""
        listing = await self.cloud.named_like(name_start(self.installation, instance_id))
        found = tuple(seen for seen in listing.instances if self._made_for(seen) == instance_id)
        return replace(listing, instances=found)

    async def finds_names(self) -> bool:
        """Whether a lookup of one attempt finds a machine of ours that is ready."""
        for known in await self._known():
            found = await self.attempt(known, attempt_of(known))
            if any(seen.id == known.provider_id for seen in found.instances):
                return True
        return False

    async def finds_beginnings(self) -> bool:
        """
        Whether a lookup of all attempts finds a machine that is known to exist.

        If the records have none, any machine from the first page of the account is used: the check is whether the
        filter finds names by their beginnings. A list that lacks several known machines, or one of a few, fails the
        check: the filter would lack them too.
        """
        async with self.database.connection() as connection:
            lacking, ready = await instances.unlisted(connection)
        if lacking > min(MOST_LACKING, max(1, ready // LISTED_FOR_ONE_LACKING)):
            return False
        known = await self._known()
        for each in known:
            found = await self.attempts(each.id)
            if any(seen.id == each.provider_id for seen in found.instances):
                return True
        return False if known or lacking else await self._finds_a_listed_one()

    async def _finds_a_listed_one(self) -> bool:
        page = await self.cloud.named_like("")
        named = [seen for seen in page.instances if len(seen.name) >= SHORTEST_NAME]
        if not named:
            return False
        example = max(named, key=lambda seen: self._made_for(seen) is not None)
        found = await self.cloud.named_like(example.name[:-2])
        return any(seen.id == example.id for seen in found.instances)

    async def _known(self) -> list[Instance]:
        async with self.database.connection() as connection:
            return await instances.listed_ready(connection, KNOWN_ASKED)

    def _made_for(self, seen: ProviderInstance) -> InstanceId | None:
        origin = parse_provider_name(seen.name)
        return None if origin is None or origin.installation != self.installation else origin.instance_id
