"""Which instances are worth a look of their own, and when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.known import FRESH, NOW

from corral.domain.instance import Instance, InstanceId, ProviderId
from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.direct_lookup import UNSEEN_CYCLES, due_for_lookup, longest_unseen

STARTING = replace(FRESH, phase=Phase.STARTING, provider_id=ProviderId("p1"))
DELETING = replace(STARTING, goal=Goal.GONE, phase=Phase.DELETING, pending=replace(STARTING.pending, sent_at=NOW))


def due_after(instance: Instance, seconds: float, looked_up_after: float | None = None) -> bool:
    looked_up = {} if looked_up_after is None else {instance.id: NOW + timedelta(seconds=looked_up_after)}
    return bool(due_for_lookup([instance], looked_up, NOW + timedelta(seconds=seconds), Policy()))


def test_changing_instances_are_looked_up_soon_and_then_at_growing_intervals() -> None:
    """A machine that boots for long is not asked after every few seconds."""
    assert [due_after(STARTING, seconds) for seconds in (4.9, 5)] == [False, True]
    assert [due_after(STARTING, seconds, looked_up_after=5) for seconds in (9.9, 10)] == [False, True]
    assert [due_after(STARTING, seconds, looked_up_after=40) for seconds in (79, 80)] == [False, True]
    assert [due_after(STARTING, seconds, looked_up_after=1000) for seconds in (1239, 1240)] == [False, True]


def test_a_new_request_starts_over() -> None:
    """What came of a repeated stop shows soon, or not for long."""
    again = replace(DELETING, pending=replace(DELETING.pending, sent_at=NOW + timedelta(seconds=100)))

    assert [due_after(again, seconds, looked_up_after=80) for seconds in (104, 105)] == [False, True]


@pytest.mark.parametrize(
    "instance",
    [
        replace(STARTING, provider_id=None),
        replace(STARTING, phase=Phase.RUNNING),
        replace(STARTING, phase=Phase.HEALTH_CHECKING),
        replace(STARTING, phase=Phase.READY),
        replace(STARTING, pending=replace(STARTING.pending, action=Action.START)),
        replace(DELETING, pending=replace(DELETING.pending, sent_at=None)),
        replace(DELETING, observation=replace(DELETING.observation, unlisted_since=NOW)),
        replace(DELETING, observation=replace(DELETING.observation, lookup_failed_since=NOW)),
    ],
)
def test_instances_that_wait_for_corral_are_not_looked_up(instance: Instance) -> None:
    """Such a look costs a call and changes nothing."""
    assert not due_after(instance, 600)


def test_the_longest_due_comes_first() -> None:
    """With a small rate limit every instance gets its lookup in turn."""
    later = replace(STARTING, id=InstanceId("inst_0"), phase_since=NOW + timedelta(seconds=1))

    found = due_for_lookup([later, STARTING, DELETING], {}, NOW + timedelta(seconds=60), Policy())

    assert [each.phase_since for each in found] == [NOW, NOW, NOW + timedelta(seconds=1)]


@given(
    seen_at=st.dictionaries(st.text(max_size=3).map(ProviderId), st.floats(0, 1000)),
    now=st.floats(0, 2000),
    cycle=st.floats(0, 500),
)
def test_only_machines_that_a_whole_reading_of_the_list_did_not_show_are_looked_up(
    seen_at: dict[ProviderId, float], now: float, cycle: float
) -> None:
    """The longest unseen first; none that a page may still show in this reading."""
    found = longest_unseen(seen_at, now, cycle)

    assert set(found) == {each for each, at in seen_at.items() if at < now - cycle * UNSEEN_CYCLES}
    assert [seen_at[each] for each in found] == sorted(seen_at[each] for each in found)
