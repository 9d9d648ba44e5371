"""The logins of one machine, read from the provider for each request and kept nowhere."""

from __future__ import annotations

from corral.cloud.port import Cloud
from corral.domain.errors import CloudRefusedError, GoalRefusedError
from corral.domain.machine.access import MachineCredentials, credentials
from corral.engine.queries.instances import InstanceQueries


class CredentialQueries:
    """Reads logins; never caches them."""

    def __init__(self, cloud: Cloud, queries: InstanceQueries) -> None:
        self._cloud = cloud
        self._queries = queries

    async def read(self, given_id: str) -> tuple[str, MachineCredentials]:
        """
        Corral's id of the instance, and its logins.

        Raises NotFoundError, GoalRefusedError NO_CREDENTIALS_YET while the machine offers none, CloudRefusedError when
        what it offers cannot be used, and what the provider's call raises.
        """
        instance = (await self._queries.instance(given_id)).instance
        provider_id = instance.provider_id
        access = None if provider_id is None else await self._cloud.machine_access(provider_id)
        if access is None:
            raise _none_yet("the provider has no machine for this instance")
        found = credentials(access)
        if not found.is_empty:
            return instance.id, found
        if access.ssh_command:
            raise CloudRefusedError("the ssh command that the provider gives cannot be read, and was not passed on")
        raise _none_yet("the machine offers no login yet; one that does not run offers none")


def _none_yet(message: str) -> GoalRefusedError:
    return GoalRefusedError(message, code="NO_CREDENTIALS_YET")
