"""Stops every instance that has a record and runs or may yet run, each by an ordinary stop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from corral.domain.errors import CallerError, NotFoundError, StaleError
from corral.domain.idempotency import KeyRow
from corral.domain.instance import Instance
from corral.domain.lifecycle.commands import CommandOptions, is_done_already, is_stoppable
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.operation import OperationKind
from corral.engine.commands.change import ChangeInstance
from corral.engine.commands.context import CommandContext
from corral.store.session.database import Database
from corral.store.tables import instances

AT_ONCE: Final = 4
"""Stops that are recorded at the same time. More leave other requests no connection to the database; fewer make the
caller of a large fleet wait longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedStop:
    """An instance that was not stopped, and why."""

    instance: Instance
    code: str
    message: str


@dataclass(slots=True, kw_only=True)
class StopAllOutcome:
    """What became of each instance."""

    stopped: list[Instance] = field(default_factory=list[Instance])
    refused: list[RefusedStop] = field(default_factory=list[RefusedStop])


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAllInstances:
    """The command that stops the whole fleet; a machine that has no record is not known here, so it is left alone."""

    database: Database
    change: ChangeInstance

    async def record(self, context: CommandContext) -> StopAllOutcome:
        """
        Record a stop for each instance, in a transaction of its own with its audit line.

        Instances that are stopped, stopping or to be deleted are left out. One that is still being created is refused:
        there is no machine to stop yet, and it will run.
        """
        async with self.database.connection() as connection:
            found = [each for each in await instances.present(connection) if _may_run(each)]
        outcome = StopAllOutcome()
        for start in range(0, len(found), AT_ONCE):
            await self._stop(found[start : start + AT_ONCE], context, outcome)
        return outcome

    async def _stop(self, some: Sequence[Instance], context: CommandContext, outcome: StopAllOutcome) -> None:
        await asyncio.gather(*(self._stop_one(each, context, outcome) for each in some))

    async def _stop_one(self, instance: Instance, context: CommandContext, outcome: StopAllOutcome) -> None:
        try:
            accepted = await self.change.record(OperationKind.STOP, instance.id, CommandOptions(), context)
        except NotFoundError:
            return  # forgotten meanwhile
        except (CallerError, StaleError) as error:
            outcome.refused.append(RefusedStop(instance=instance, code=error.code, message=error.message))
            return
        if not isinstance(accepted, KeyRow) and accepted.is_new:
            outcome.stopped.append(accepted.instance)


def _may_run(instance: Instance) -> bool:
    if instance.goal is Goal.GONE or is_done_already(instance, OperationKind.STOP):
        return False
    return instance.phase is Phase.CREATING or is_stoppable(instance)
