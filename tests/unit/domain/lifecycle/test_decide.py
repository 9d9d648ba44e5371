"""The life of an instance: tables without holes, and the rules around them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.engines.known import FRESH, NOW

from corral.domain.errors import Failure
from corral.domain.events import starts_to_wait
from corral.domain.instance import CreateAttempt, CreateWait, InstanceId, Observation, ProviderId
from corral.domain.leases.lease import EndCause, LeaseState
from corral.domain.lifecycle.creation import held_up, not_created
from corral.domain.lifecycle.decide import decide, why
from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.lifecycle.tables import AFTER_SIGHTING, PLAN
from corral.domain.lifecycle.transitions import Decision, decided
from corral.domain.observation.provider_names import ProviderName, parse_provider_name, provider_name
from corral.domain.observation.sighting import Sighting

POLICY = Policy()
CREATED = replace(
    FRESH,
    provider_id=ProviderId("p1"),
    create=CreateAttempt(number=1),
    phase=Phase.STARTING,
    observation=Observation(sighting=Sighting.BOOTING),
)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def test_the_tables_are_total() -> None:
    """A new phase, sighting or goal fails here until it has a row."""
    assert set(AFTER_SIGHTING) == set(PLAN) == set(Phase)
    assert all(set(row) == set(Sighting) for row in AFTER_SIGHTING.values())
    assert all(set(row) == set(Goal) for row in PLAN.values())


def test_terminated_is_entered_from_a_confirmed_absence_only() -> None:
    """Gone means gone."""
    ways_in = {
        (before, sighting)
        for before, row in AFTER_SIGHTING.items()
        for sighting, after in row.items()
        if after is Phase.TERMINATED
    }

    assert ways_in == {(Phase.DELETING, Sighting.ABSENT), (Phase.TERMINATED, Sighting.ABSENT)}


def test_what_is_wanted_and_was_never_asked_for_is_created() -> None:
    """The first reconcile after a create request."""
    assert decide(FRESH, NOW, POLICY).action is Action.CREATE


@pytest.mark.parametrize(
    ("waited", "listings", "action"),
    [(0, 0, None), (59, 9, None), (600, 1, None), (60, 2, Action.CREATE)],
)
def test_a_create_in_doubt_is_repeated_only_when_settled(waited: float, listings: int, action: Action | None) -> None:
    """Both the time and the listings must have passed; either alone proves nothing."""
    doubtful = replace(
        FRESH,
        create=CreateAttempt(number=1, sent_at=NOW, doubted_at=NOW, listings_without=listings),
    )

    decision = decide(doubtful, NOW + seconds(waited), POLICY)
    assert (decision.action, decision.is_in_doubt) == (action, action is None)


def test_a_call_that_was_not_carried_out_leaves_its_reason_and_no_pause() -> None:
    """The job that made the call comes back by itself; the reasons of one outage are one wait."""
    first = held_up(
        not_created(
            replace(
                FRESH,
                create=CreateAttempt(number=1, sent_at=NOW),
            )
        ),
        "HTTP 403",
    )
    second = held_up(first, "the provider keeps failing")

    assert first.waiting is not None
    assert first.waiting.message == "HTTP 403"
    assert (starts_to_wait(FRESH, first), starts_to_wait(first, second)) == (True, False)
    assert decide(first, NOW, POLICY).action is Action.CREATE
    assert not first.create_in_doubt


def test_what_is_to_be_deleted_does_not_begin_to_wait() -> None:
    """The create call ended after the delete was recorded."""
    deleted = replace(FRESH, goal=Goal.GONE, phase=Phase.DELETING)

    assert held_up(deleted, "HTTP 403") is deleted


def test_the_settle_timer_starts_when_the_call_ended() -> None:
    """A call may wait its turn for minutes; listings of that time say nothing of what it did at last."""
    waited = replace(
        FRESH,
        create=CreateAttempt(number=1, sent_at=NOW, listings_without=9),
    )
    over = NOW + seconds(300)
    decision = decide(waited, over, POLICY)
    doubted = decided(waited, decision, over)

    assert (decision.action, decision.is_in_doubt) == (None, True)
    assert (doubted.create.doubted_at, doubted.create.listings_without) == (over, 0)
    listed = replace(doubted, create=replace(doubted.create, listings_without=2))
    assert decide(listed, over + seconds(59), POLICY).is_in_doubt


def test_deleting_a_create_in_doubt_first_finds_out() -> None:
    """What may be billed must be looked for before it is called gone."""
    doubtful = replace(
        FRESH,
        goal=Goal.GONE,
        create=CreateAttempt(number=1, sent_at=NOW),
    )
    settled = replace(
        doubtful,
        create=replace(doubtful.create, doubted_at=NOW, listings_without=2),
    )

    assert decide(doubtful, NOW, POLICY).is_in_doubt
    assert decide(doubtful, NOW, POLICY).phase is Phase.DELETING
    assert decide(settled, NOW + seconds(60), POLICY).phase is Phase.TERMINATED


def test_the_deadline_of_a_create_in_doubt_is_kept_and_its_name_searched_for() -> None:
    """The user is not kept waiting for a provider that cannot be listed; a machine that shows up is still found."""
    doubtful = replace(
        FRESH, create=CreateAttempt(number=1, sent_at=NOW, doubted_at=NOW), deadline_at=NOW + seconds(30)
    )
    before, after = decide(doubtful, NOW, POLICY), decide(doubtful, NOW + seconds(30), POLICY)

    assert (before.phase, before.is_in_doubt, before.requeue_after) == (Phase.CREATING, True, seconds(30))
    assert (after.phase, after.is_in_doubt, before.action, after.action) == (Phase.FAILED, True, None, None)
    assert after.failure is not None
    assert after.failure.code == "STARTUP_TIMEOUT"


def test_a_create_in_doubt_is_settled_after_its_deadline_too() -> None:
    """Else the failed instance would be called stuck for ever."""
    doubtful = replace(
        FRESH, create=CreateAttempt(number=1, sent_at=NOW, doubted_at=NOW), deadline_at=NOW + seconds(30)
    )
    late = NOW + seconds(90)
    failed = decided(doubtful, decide(doubtful, late, POLICY), late)
    settled = replace(failed, create=replace(failed.create, listings_without=2))

    assert failed.create_in_doubt
    assert not decided(settled, decide(settled, late, POLICY), late).create_in_doubt
    assert decided(settled, decide(settled, late, POLICY), late).phase is Phase.FAILED


def test_a_call_in_doubt_is_remembered_while_the_next_one_waits() -> None:
    """Its machine may appear later than the settle time: it is then deleted as a lost create."""
    over = NOW + seconds(60)
    settled = replace(
        FRESH,
        create=CreateAttempt(number=1, sent_at=NOW, doubted_at=NOW, listings_without=2),
        waiting=CreateWait(code="RESOURCE_CONSTRAINTS", message="no stock", tries=1, retry_at=over + seconds(30)),
    )
    waits = decided(settled, decide(settled, over, POLICY), over)

    assert (waits.create_in_doubt, waits.given_up) == (False, (1,))


def test_deleting_what_was_never_asked_for_is_done_at_once() -> None:
    """There is nothing to wait for."""
    assert decide(replace(FRESH, goal=Goal.GONE), NOW, POLICY).phase is Phase.TERMINATED


def test_one_missing_listing_changes_nothing() -> None:
    """It leads to a direct look, and no further."""
    missing = replace(
        CREATED,
        phase=Phase.READY,
        observation=replace(CREATED.observation, sighting=Sighting.RUNNING, unlisted_since=NOW),
    )
    decision = decide(missing, NOW, POLICY)

    assert (decision.phase, decision.action) == (Phase.READY, Action.CONFIRM)


def test_the_second_listing_of_a_missing_instance_comes_thirty_seconds_later() -> None:
    """A hiccup of the provider is shorter than that."""
    once = replace(
        CREATED,
        phase=Phase.READY,
        observation=replace(CREATED.observation, unlisted_since=NOW, absence_checks=1, absence_checked_at=NOW),
    )

    assert decide(once, NOW + seconds(29), POLICY).action is None
    assert decide(once, NOW + seconds(30), POLICY).action is Action.CONFIRM


def test_a_deleted_instance_that_is_not_found_is_looked_up_again_before_it_is_gone() -> None:
    """The delete is not repeated meanwhile, and the instance is not called gone before the settle time."""
    gone = replace(
        CREATED,
        goal=Goal.GONE,
        phase=Phase.DELETING,
        pending=replace(CREATED.pending, sent_at=NOW),
        observation=replace(CREATED.observation, lookup_failed_since=NOW + seconds(5)),
    )
    waiting = decide(gone, NOW + seconds(64), POLICY)

    assert (waiting.phase, waiting.action, waiting.requeue_after) == (Phase.DELETING, None, seconds(1))
    assert decide(gone, NOW + seconds(65), POLICY).action is Action.CONFIRM
    assert (
        decide(replace(gone, pending=replace(gone.pending, sent_at=None)), NOW + seconds(65), POLICY).action
        is Action.DELETE
    )


def test_a_confirmed_absence_is_reported_as_vanished() -> None:
    """With the word of the contract."""
    decision = decide(
        replace(
            CREATED,
            phase=Phase.READY,
            observation=replace(CREATED.observation, sighting=Sighting.ABSENT, unlisted_since=NOW),
        ),
        NOW,
        POLICY,
    )

    assert decision.phase is Phase.FAILED
    assert decision.failure is not None
    assert decision.failure.code == "INSTANCE_VANISHED"


def test_past_its_deadline_it_is_failed_and_still_heals() -> None:
    """If it starts after the deadline, it still becomes ready."""
    late = NOW + timedelta(minutes=21)
    failed = decided(CREATED, decide(CREATED, late, POLICY), late)
    assert failed.phase is Phase.FAILED
    assert failed.failure is not None
    assert failed.failure.code == "STARTUP_TIMEOUT"

    seen = replace(
        failed,
        observation=replace(
            failed.observation, sighting=Sighting.RUNNING, provider_status="running", sighted_at=late + seconds(1)
        ),
    )
    healed = decided(seen, decide(seen, late + seconds(1), POLICY), late + seconds(1))

    assert (healed.phase, healed.failure, healed.deadline_at) == (Phase.RUNNING, None, None)
    assert decide(healed, late + seconds(2), POLICY).action is Action.INSPECT


def test_what_comes_up_past_its_deadline_is_not_failed_for_being_late() -> None:
    """No listing came in time; that it runs counts more than that it is late."""
    late = NOW + timedelta(minutes=21)
    seen = replace(
        CREATED,
        observation=replace(CREATED.observation, sighting=Sighting.RUNNING, provider_status="running", sighted_at=late),
    )
    up = decided(seen, decide(seen, late, POLICY), late)

    assert (up.phase, up.deadline_at) == (Phase.RUNNING, None)


@pytest.mark.parametrize("word", [Sighting.RUNNING, Sighting.BOOTING])
def test_a_failure_stays_until_the_instance_changes(word: Sighting) -> None:
    """A second reconcile over the same facts publishes nothing."""
    broken = replace(
        CREATED,
        observation=replace(CREATED.observation, sighting=word, sighted_at=NOW, failure="the host broke"),
    )
    failed = decided(broken, decide(broken, NOW, POLICY), NOW)
    assert failed.phase is Phase.FAILED

    assert decide(failed, NOW + seconds(5), POLICY).phase is Phase.FAILED


def test_an_unhealthy_instance_is_not_healed_by_the_providers_word() -> None:
    """It ran the whole time; a cycle of phases would publish the same events for ever."""
    unhealthy = replace(
        CREATED,
        phase=Phase.FAILED,
        observation=replace(CREATED.observation, sighting=Sighting.RUNNING),
        failure=Failure(code="HEALTH_CHECK_TIMEOUT", message="no"),
    )

    assert decide(unhealthy, NOW, POLICY).phase is Phase.FAILED


def test_the_providers_own_failure_fails_it_at_once() -> None:
    """A known failure must not wait for the deadline of twenty minutes."""
    decision = decide(
        replace(CREATED, observation=replace(CREATED.observation, failure="image not found")), NOW, POLICY
    )

    assert decision.failure == Failure(code="PROVISIONING_FAILED", message="the provider reports: image not found")


def test_a_delete_is_repeated_only_after_a_while() -> None:
    """For ever, but not without pause."""
    leaving = replace(CREATED, goal=Goal.GONE, phase=Phase.DELETING, pending=replace(CREATED.pending, sent_at=NOW))

    assert decide(leaving, NOW + seconds(14), POLICY).action is None
    assert decide(leaving, NOW + seconds(15), POLICY).action is Action.DELETE


@pytest.mark.parametrize(("goal", "phase"), [(Goal.GONE, Phase.DELETING), (Goal.STOPPED, Phase.STOPPING)])
def test_the_pauses_between_repeats_double_up_to_four_minutes(goal: Goal, phase: Phase) -> None:
    """A hundred that wait to be seen gone would else use up the budget that is needed to see it."""
    leaving = replace(
        CREATED,
        goal=goal,
        phase=phase,
        phase_since=NOW,
        pending=replace(CREATED.pending, sent_at=None),
        observation=replace(CREATED.observation, sighting=Sighting.RUNNING),
    )
    asked: list[int] = []
    for second in range(0, 1000, 5):
        if decide(leaving, NOW + seconds(second), Policy()).action in {Action.DELETE, Action.STOP}:
            asked.append(second)
            leaving = replace(leaving, pending=replace(leaving.pending, sent_at=NOW + seconds(second)))

    assert asked == [0, 15, 30, 60, 120, 240, 480, 720, 960]


def test_a_decision_that_changes_nothing_is_recorded_as_nothing() -> None:
    """The same phase keeps its hour."""
    same = Decision(phase=CREATED.phase, action=None, because="", requeue_after=None)

    assert decided(CREATED, same, NOW + seconds(5)) is CREATED


def test_a_provider_name_names_its_installation() -> None:
    """Foreign names parse to nothing, and so do numbers in another form."""
    origin = ProviderName(installation="0a1b2c", instance_id=InstanceId("inst_7f3k"), attempt=12)

    assert provider_name(origin) == "corral-0a1b2c-inst-7f3k-12"
    assert parse_provider_name(provider_name(origin)) == origin
    for foreign in (
        "worker-1",
        "corral-demo",
        "corral-0a1b2c-inst-7f3k",
        "my-corral-0a1b2c-inst-7f3k-1",
        "",
        "corral-0a1b2c-inst-7f3k-01",
    ):
        assert parse_provider_name(foreign) is None


def test_the_end_by_a_lease_is_the_reason_of_the_last_event() -> None:
    """That is what `corral why` shows of a stopped instance; any other stop says what the provider says."""
    stopping = replace(FRESH, goal=Goal.STOPPED, phase=Phase.STOPPING, lease=LeaseState(ended_by=EndCause.MAX_DURATION))
    exited = replace(stopping, phase=Phase.EXITED)
    decision = Decision(phase=Phase.EXITED, because="the provider says exited")

    assert why(stopping, exited, decision) == "ended by its lease (max duration): the provider says exited"
    assert why(stopping, replace(exited, lease=LeaseState()), decision) == "the provider says exited"
    assert why(exited, exited, decision) == "the provider says exited"
