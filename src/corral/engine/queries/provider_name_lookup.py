"""Looks an instance up by name at the provider when no record has that name."""

from __future__ import annotations

from dataclasses import dataclass

from corral.cloud.port import Cloud
from corral.domain.audit import AuditEntry
from corral.domain.errors import GoalRefusedError
from corral.domain.instance import InstanceId
from corral.domain.observation.adoption import Adoption
from corral.domain.observation.sighting import Sighting
from corral.engine.commands.adopt import AdoptInstance
from corral.engine.ids import name_ambiguous, no_instance_named


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderNameLookup:
    """Instances of the account by their name at the provider."""

    cloud: Cloud
    adopting: AdoptInstance
    adoption: Adoption

    async def startable(self, name: str, line: AuditEntry) -> InstanceId:
        """
        The one stopped instance with exactly that name; one without a record is adopted, with *line* as audit line.

        Raises NotFoundError, and GoalRefusedError for several, or for one that is not stopped: that is left alone.
        """
        listing = await self.cloud.instances()
        gone = {Sighting.REMOVING, Sighting.ABSENT}
        found = [seen for seen in listing.instances if seen.name == name and seen.sighting not in gone]
        if not found:
            raise no_instance_named(name)
        if len(found) > 1:
            raise name_ambiguous(name, {"novitaInstanceIds": [seen.id for seen in found]})
        (seen,) = found
        if seen.sighting is not Sighting.EXITED:
            raise GoalRefusedError(
                f"{name!r} is {seen.provider_status} at the provider and cannot be started: only a stopped one can be",
                code="INSTANCE_NOT_STARTABLE",
                details={"novitaInstanceId": seen.id, "status": seen.provider_status},
            )
        known, _ = await self.adopting.adopt(seen.id, self.adoption, line)
        return known.instance.id
