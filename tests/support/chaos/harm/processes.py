"""Harm to service processes: killed, frozen, or cut off from the database or the provider."""

from __future__ import annotations

import signal

from support.chaos.process import Process
from support.chaos.rules import Field

SHORT_FREEZE = (2.0, 8.0)
LONG_FREEZE = (50.0, 60.0)
"""Longer than the 45 s within which a create must be answered."""
LONG_SHARE = 0.3
CUT = (5.0, 40.0)


def _any_process(field: Field) -> Process:
    return field.dice.choice(field.installation.processes)


async def kill(field: Field) -> None:
    """SIGKILL, and a new start at once."""
    async with field.starting:
        process = _any_process(field)
        process.is_held = True
        try:
            await process.end(signal.SIGKILL)
            await process.start()
        finally:
            process.is_held = False


async def freeze(field: Field) -> None:
    """SIGSTOP, and SIGCONT later: its connections stay open, and its clock jumps."""
    frozen = _any_process(field).running
    long = field.dice.random() < LONG_SHARE and field.seconds_left > LONG_FREEZE[1]
    if frozen is None:
        return
    if frozen.returncode is None:
        frozen.send_signal(signal.SIGSTOP)
    await field.spell(*(LONG_FREEZE if long else SHORT_FREEZE))
    if frozen.returncode is None:
        frozen.send_signal(signal.SIGCONT)


async def cut_database(field: Field) -> None:
    """The connections of one process to PostgreSQL go silent, without an end."""
    process = _any_process(field)
    if not process.database.is_cut:
        process.database.cut()
        await field.spell(*CUT)
        process.database.mend()


async def cut_provider(field: Field) -> None:
    """The connections of one process to the provider go silent, without an end."""
    process = _any_process(field)
    if not process.provider.is_cut:
        process.provider.cut()
        await field.spell(*CUT)
        process.provider.mend()
