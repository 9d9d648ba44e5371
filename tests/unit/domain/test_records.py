"""`replace` does what `dataclasses.replace` does."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from support.engines.engine_steps import REQUEST

from corral.domain.instance import Instance, InstanceId, OperationId, PendingAction
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.records import replace


@dataclasses.dataclass(frozen=True, slots=True)
class OneField:
    """The smallest record."""

    value: int


INSTANCE = Instance(
    id=InstanceId("inst_1"),
    request=REQUEST,
    goal=Goal.RUNNING,
    phase=Phase.CREATING,
    operation_id=OperationId("op_1"),
    created_at=datetime(2030, 1, 1, tzinfo=UTC),
    phase_since=datetime(2030, 1, 1, tzinfo=UTC),
    deadline_at=None,
)


def test_a_copy_has_the_changes_and_everything_else_of_the_original() -> None:
    """And the original is unchanged."""
    before = dataclasses.replace(INSTANCE)
    pending = PendingAction(attempts=2)

    after = replace(INSTANCE, phase=Phase.STARTING, pending=pending)

    assert after == dataclasses.replace(INSTANCE, phase=Phase.STARTING, pending=pending)
    assert before == INSTANCE
    assert hash(replace(OneField(1), value=2)) == hash(OneField(2))


def test_a_field_that_does_not_exist_is_refused() -> None:
    """A change that is silently lost would be worse than an error."""
    changes: dict[str, Any] = {"fase": Phase.READY}
    with pytest.raises(KeyError, match="fase"):
        replace(INSTANCE, **changes)


def test_a_copy_is_frozen() -> None:
    """As the original is."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(INSTANCE).__setattr__("phase", Phase.READY)
