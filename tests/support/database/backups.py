"""A database put back to an earlier state while the provider's account went on."""

from __future__ import annotations

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.store.session.database import Database
from support.engines.stepped_engine import SteppedEngine

OURS = r"corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+"
COPIED = ("corral_instances", "corral_operations", "corral_last_look")


async def rows(database: Database) -> dict[str, list[str]]:
    """What a backup has."""
    async with database.connection() as connection:
        return {
            table: [row["row"] for row in await connection.fetch(f"SELECT row_to_json(t)::text AS row FROM {table} t")]  # noqa: S608
            for table in COPIED
        }


async def restore(database: Database, backup: dict[str, list[str]]) -> None:
    """Everything as it was, on another server, and a look at every instance."""
    async with database.transaction() as connection:
        await connection.execute("DELETE FROM corral_pgqueuer")
        for table, kept in backup.items():
            await connection.execute(f"DELETE FROM {table}")  # noqa: S608
            await connection.execute(
                f"INSERT INTO {table} OVERRIDING SYSTEM VALUE"  # noqa: S608
                f" SELECT * FROM json_populate_recordset(NULL::{table}, $1::json)",
                f"[{','.join(kept)}]",
            )
        await connection.execute("UPDATE corral_last_look SET identity = 'another server'")
        await connection.execute("UPDATE corral_instances SET look_at = now() - interval '40 years'")


async def ready(engine: SteppedEngine, requested: list[InstanceId]) -> dict[InstanceId, str]:
    """Step until all are ready; their machines."""
    return {instance_id: str((await engine.until(instance_id, Phase.READY)).provider_id) for instance_id in requested}
