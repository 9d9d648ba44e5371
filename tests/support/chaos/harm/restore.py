"""An older export is restored: the service forgets what it was asked and what it bought since then."""

from __future__ import annotations

import asyncio
import signal

from support.chaos.harm.outside import set_faults
from support.chaos.installation import CLOCK, Installation
from support.chaos.rules import Field
from support.processes.process import run

BEFORE = (2.0, 6.0)
"""Between the last create that the provider accepts and the export."""
BETWEEN = (4.0, 25.0)
"""Between the export and its restore."""


async def restore(field: Field) -> None:
    """Export, go on, kill every process, import the export into a new database, and start on that one."""
    if field.restoring.locked():
        return
    async with field.restoring:
        await _restore(field)


async def _restore(field: Field) -> None:
    installation, file = field.installation, f"export-{field.asked.epoch}.jsonl"
    async with field.database:
        # So that the export has instances that are recorded and not created yet: the worst to forget the creation of.
        await set_faults(field, {"fault": "throttle", "on": "create"})
        await field.spell(*BEFORE)
        exported_at = CLOCK.monotonic()
        await _beside(installation, installation.target.database, "export", file)
        await set_faults(field)
    await field.spell(*BETWEEN)
    async with field.database, field.starting:
        held = installation.processes
        for process in held:
            process.is_held = True
        try:
            await asyncio.gather(*(process.end(signal.SIGKILL) for process in held))
            await _replace(field, exported_at, file)
            await asyncio.gather(*(process.start() for process in held))
        finally:
            for process in held:
                process.is_held = False


async def _replace(field: Field, exported_at: float, file: str) -> None:
    installation = field.installation
    field.asked.restore(exported_at)
    field.living_at_restore |= {machine["id"] for machine in await field.http.machines()}
    name = f"restored_{field.asked.epoch}"
    await installation.sql(f"CREATE DATABASE {name}")
    await _beside(installation, name, "import", file)
    installation.use_database(name)
    installation.receiver.got.clear()
    field.restored_seq = int(
        str(await installation.sql("SELECT coalesce(max(seq), 0) FROM corral_events", database=name))
    )


async def _beside(installation: Installation, database: str | None, *command: str) -> None:
    code, _, errors = await run(*command, cwd=installation.place, DATABASE_URL=installation.database_url(database))
    assert code == 0, f"corral {command[0]}: {errors}"
