"""Opening the secrets of a create, right before its call."""

from __future__ import annotations

from dataclasses import dataclass

from corral.domain.errors import SettingsError
from corral.domain.instance import Instance
from corral.domain.lifecycle.creation import KEY_UNUSABLE
from corral.domain.placement.catalog import EnvironmentVariable
from corral.store.secrets.key_file import SecretKeyFile
from corral.store.secrets.sealing import UnsealError
from corral.store.session.database import Database
from corral.store.tables import sealed_secrets

LOST = "SECRETS_LOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSecrets:
    """Reads secrets for create calls."""

    database: Database
    key_file: SecretKeyFile

    async def open(self, instance: Instance) -> tuple[EnvironmentVariable, ...]:
        """
        The secrets of *instance*, all that it was requested with; reads nothing if it has none.

        Raises SettingsError: `SECRET_KEY_UNUSABLE` if another process, or this one with the right key, could open them,
        `SECRETS_LOST` if none can. No machine is created without its secrets.
        """
        names = instance.request.secret_names
        if not names:
            return ()
        async with self.database.connection() as connection:
            sealed = await sealed_secrets.load(connection, instance.id)
        if sealed is None:
            raise SettingsError("its secrets are not stored any more, and it is not created without them", code=LOST)
        key = self.key_file.load()
        if key is None or key.id != sealed.key_id:
            has = "there is no such file" if key is None else f"its key is {key.id}"
            raise SettingsError(
                f"its secrets are encrypted with key {sealed.key_id}, and this process cannot open them: "
                f"{self.key_file.path}: {has}",
                code=KEY_UNUSABLE,
            )
        try:
            values = key.unseal(sealed)
        except UnsealError:
            raise SettingsError("its stored secrets were changed or damaged, and cannot be read", code=LOST) from None
        if set(values) != set(names):
            raise SettingsError("its stored secrets are not those of its request", code=LOST)
        return tuple(EnvironmentVariable(key=name, value=values[name]) for name in names)
