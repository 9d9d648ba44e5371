"""
The sealed secrets of instances that may still be created.

A row is written with its instance, and deleted in the transaction that records that no create call can follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle.creation import may_be_created
from corral.store.secrets.sealing import SealedSecrets
from corral.store.session.database import Connection
from corral.store.sql.combined_statement import Write, only_if
from corral.store.tables import instances

_ADD: Final = """
INSERT INTO corral_secrets (instance_id, key_id, content)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[])
"""
_FORGET: Final = "DELETE FROM corral_secrets WHERE instance_id = ANY($1::text[])"


def add(sealed: Sequence[SealedSecrets], *, if_: str | None = None) -> Write:
    """Insert the rows of new instances, at least one, if the write called *if_* changed a row."""
    columns = [[s.instance_id for s in sealed], [s.key_id for s in sealed], [s.content for s in sealed]]
    return Write("new_secrets", f"{_ADD}WHERE {only_if(if_)}", columns)


def forget_unneeded(changes: Iterable[tuple[Instance, Instance]], *, if_: str | None = None) -> list[Write]:
    """
    Delete the secrets of the instances that may no longer be created after their change, given as before and after.

    Returns no write for other instances. With *if_* only those that the write of that name returned.
    """
    ids = [
        after.id
        for before, after in changes
        if after.request.secret_names and may_be_created(before) and not may_be_created(after)
    ]
    if not ids:
        return []
    condition = "" if if_ is None else f" AND instance_id IN (SELECT id FROM {if_})"  # noqa: S608  # the name of a write
    return [Write("forgotten_secrets", _FORGET + condition, (ids,))]


async def load(connection: Connection, instance_id: InstanceId) -> SealedSecrets | None:
    """The sealed secrets of one instance; None if there are none."""
    row = await connection.fetchrow("SELECT key_id, content FROM corral_secrets WHERE instance_id = $1", instance_id)
    if row is None:
        return None
    return SealedSecrets(instance_id=instance_id, key_id=row["key_id"], content=row["content"])


async def keys_needed(connection: Connection) -> Counter[str]:
    """How many instances wait with secrets of each key, by its id."""
    rows = await connection.fetch("SELECT key_id, count(*) AS waiting FROM corral_secrets GROUP BY key_id")
    return Counter({row["key_id"]: row["waiting"] for row in rows})


async def sweep(connection: Connection) -> int:
    """
    Delete the secrets of instances that can no longer be created; returns how many.

    There are some only if a process of an earlier release, which does not know the table, recorded that.
    """
    ids = [InstanceId(row["instance_id"]) for row in await connection.fetch("SELECT instance_id FROM corral_secrets")]
    found = await instances.by_ids(connection, ids, []) if ids else {}
    unneeded = [each for each in ids if each not in found or not may_be_created(found[each])]
    if unneeded:
        await connection.execute(_FORGET, unneeded)
    return len(unneeded)
