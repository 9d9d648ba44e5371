"""What a listing proves about stored records, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from support.engines.known import FRESH, NOW
from support.provider.sightings import shown

from corral.domain.instance import CreateAttempt, Instance, ProviderId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.compare import Comparison, after_lookup, compare
from corral.domain.observation.observations import ObservationTimes
from corral.domain.observation.sighting import ProviderInstance, Sighting

SETTLE = timedelta(seconds=60)
CREATED = replace(
    FRESH, phase=Phase.STARTING, create=CreateAttempt(number=1), provider_id=ProviderId("p1"), started_at=NOW
)


def looked(instance: Instance, listed: Sequence[ProviderInstance], *, after: float, settled: bool = True) -> Comparison:
    began = NOW + timedelta(seconds=after)
    return compare(
        {instance.id: instance},
        listed,
        ObservationTimes(began=began, now=began + timedelta(seconds=50), settle=SETTLE),
        complete=True,
        installation="0a1b2c",
        settled={instance.id} if settled else (),
    )


@pytest.mark.parametrize("goal", [Goal.RUNNING, Goal.GONE])
def test_a_new_instance_is_not_missing_before_it_had_time_to_show(goal: Goal) -> None:
    """Also when it is to go: taken for gone, it would turn up later and be billed."""
    deleted = replace(CREATED, goal=goal, phase_since=NOW + timedelta(seconds=30))

    assert looked(deleted, [], after=59).changed == ()
    assert [i.observation.unlisted_since for i in looked(deleted, [], after=60).changed] == [NOW + SETTLE]


def test_an_old_listing_does_not_take_back_what_was_said_since() -> None:
    """One that was found gone while the listing was read does not come to life again."""
    gone = replace(
        CREATED,
        goal=Goal.GONE,
        phase=Phase.TERMINATED,
        observation=replace(CREATED.observation, sighting=Sighting.ABSENT, sighted_at=NOW + timedelta(seconds=5)),
    )

    assert looked(gone, [shown("p1", Sighting.REMOVING)], after=4).changed == ()
    assert [i.observation.sighting for i in looked(gone, [shown("p1", Sighting.RUNNING)], after=6).changed] == [
        Sighting.RUNNING
    ]


def test_listings_within_the_settle_time_prove_nothing_about_a_create_in_doubt() -> None:
    """Two early listings may both lag behind the create; a long pause after them proves no more."""
    doubtful = replace(
        CREATED,
        phase=Phase.CREATING,
        provider_id=None,
        create=replace(CREATED.create, sent_at=NOW, doubted_at=NOW),
    )
    counted = [len(looked(doubtful, [], after=seconds).counted) for seconds in (0, 1, 59.9, 60, 61)]

    assert counted == [0, 0, 0, 1, 1]
    assert not looked(doubtful, [], after=3600, settled=False).counted, (
        "whatever the clock says, the settle time has not passed"
    )


LEAVING = replace(
    CREATED,
    goal=Goal.GONE,
    phase=Phase.DELETING,
    observation=replace(CREATED.observation, sighting=Sighting.RUNNING),
    pending=replace(CREATED.pending, sent_at=NOW + timedelta(seconds=100)),
)


def looked_at(instance: Instance, seen: ProviderInstance | None, *, after: float) -> Instance:
    began = NOW + timedelta(seconds=after)
    return after_lookup(instance, seen, ObservationTimes(began=began, now=began + timedelta(seconds=50), settle=SETTLE))


def test_a_lookup_shows_what_a_listing_would() -> None:
    """Its content is as old as the start of the listing."""
    up = looked_at(CREATED, shown("p1", Sighting.RUNNING), after=10)

    assert (up.observation.sighting, up.observation.sighted_at) == (Sighting.RUNNING, NOW + timedelta(seconds=10))
    assert looked_at(up, shown("p1", Sighting.BOOTING), after=9) is up


def test_a_failed_lookup_counts_only_after_a_delete_was_sent() -> None:
    """Whatever else is not found must be missing in a listing as well."""
    reported = looked_at(LEAVING, None, after=100)

    assert reported.observation.lookup_failed_since == LEAVING.pending.sent_at
    assert looked_at(reported, None, after=130) is reported
    for other in (
        replace(LEAVING, goal=Goal.RUNNING),
        replace(LEAVING, pending=replace(LEAVING.pending, sent_at=None)),
    ):
        assert looked_at(other, None, after=100) is other
    assert looked_at(LEAVING, None, after=99) is LEAVING


def test_a_new_one_is_not_unfound_before_it_had_time_to_show() -> None:
    """The provider may not know yet what it made."""
    new = replace(
        LEAVING, observation=replace(LEAVING.observation, sighting=None), pending=replace(LEAVING.pending, sent_at=NOW)
    )

    assert looked_at(new, None, after=59) is new
    assert looked_at(new, None, after=60).observation.lookup_failed_since == NOW + SETTLE


def test_a_later_sighting_takes_back_that_it_was_not_found_and_an_older_listing_does_not() -> None:
    """A long listing may have read its page before it went."""
    unfound = replace(
        LEAVING, observation=replace(LEAVING.observation, lookup_failed_since=NOW + timedelta(seconds=110))
    )
    there = [shown("p1", Sighting.RUNNING)]

    assert looked(unfound, there, after=109).changed == ()
    assert [i.observation.lookup_failed_since for i in looked(unfound, there, after=111).changed] == [None]


def test_a_clock_that_was_set_back_does_not_make_what_is_seen_old() -> None:
    """What was recorded before the change lies in the future; it does not say what is newer."""
    ahead = replace(
        CREATED,
        observation=replace(CREATED.observation, sighting=Sighting.RUNNING, sighted_at=NOW + timedelta(minutes=10)),
    )
    stopped = [shown("p1", Sighting.EXITED)]

    assert [i.observation.sighting for i in looked(ahead, stopped, after=0).changed] == [Sighting.EXITED]
    assert (
        looked(
            replace(ahead, observation=replace(ahead.observation, sighted_at=NOW + timedelta(seconds=40))),
            stopped,
            after=0,
        ).changed
        == ()
    )
    assert looked_at(ahead, stopped[0], after=0).observation.sighting is Sighting.EXITED


READY = replace(
    CREATED,
    phase=Phase.READY,
    observation=replace(CREATED.observation, sighting=Sighting.RUNNING, sighted_at=NOW),
)


@pytest.mark.parametrize("sighting", [Sighting.RUNNING, Sighting.MOVING])
def test_an_unknown_word_for_one_that_is_ready_is_followed_closely(sighting: Sighting) -> None:
    """Its phase does not follow from it, and its state is unknown."""
    found = looked(READY, [shown("p1", sighting)], after=10)

    assert found.is_unsettled is (sighting is Sighting.MOVING)


def test_a_listing_is_trusted_once_what_it_lacks_was_looked_up() -> None:
    """Before that, it is as likely to be wrong as the machine is to be gone."""
    checked = replace(
        READY,
        observation=replace(READY.observation, unlisted_since=NOW, absence_checks=1),
    )

    assert not looked(READY, [], after=100).trusted
    assert looked(checked, [], after=100).trusted
    assert looked(READY, [shown("p1", Sighting.RUNNING)], after=100).trusted


@pytest.mark.parametrize(("after", "again"), [(10, False), (29, False), (30, True), (100, True)])
def test_one_that_a_lookup_found_is_looked_up_again_at_growing_pauses(after: float, *, again: bool) -> None:
    """A list that is wrong must not use up the rate limit; here 50 s pass from a listing's beginning to its end."""
    found_at = NOW + timedelta(seconds=50)
    unlisted = replace(
        READY,
        observation=replace(READY.observation, found_unlisted_since=found_at, found_unlisted_at=found_at),
    )
    changed = looked(unlisted, [], after=after).changed

    assert [i.observation.unlisted_since is not None for i in changed] == ([True] if again else [])


def test_a_clock_that_was_set_back_does_not_put_off_a_lookup() -> None:
    """The last lookup seems to lie ahead; counted from there, nothing would be looked up for that long."""
    ahead = NOW + timedelta(hours=1)
    unlisted = replace(
        READY,
        observation=replace(READY.observation, found_unlisted_since=ahead, found_unlisted_at=ahead),
    )

    assert [i.observation.unlisted_since is not None for i in looked(unlisted, [], after=100).changed] == [True]


def test_a_clock_that_was_set_back_does_not_delay_the_end_of_a_restart() -> None:
    """The restart seems to be requested after everything that is seen; it is not waited for."""
    running = [shown("p1", Sighting.RUNNING)]
    ahead, recent = [
        replace(CREATED, phase=Phase.RESTARTING, pending=replace(CREATED.pending, sent_at=NOW + after))
        for after in (timedelta(hours=1), timedelta(seconds=40))
    ]

    assert [i.observation.sighting for i in looked(ahead, running, after=0).changed] == [Sighting.RUNNING]
    assert looked(recent, running, after=0).changed == ()


READY = replace(
    CREATED,
    phase=Phase.READY,
    observation=replace(CREATED.observation, sighting=Sighting.RUNNING, sighted_at=NOW),
)


@pytest.mark.parametrize(
    ("instance", "counts"),
    [
        (READY, True),
        (CREATED, True),
        (replace(CREATED, started_at=NOW + timedelta(seconds=41)), False),
        (replace(READY, goal=Goal.GONE), False),
        (replace(READY, observation=replace(READY.observation, sighting=Sighting.REMOVING)), False),
        (replace(READY, observation=replace(READY.observation, sighting=Sighting.ABSENT)), False),
        (replace(READY, observation=replace(READY.observation, unlisted_since=NOW)), False),
        (replace(READY, observation=replace(READY.observation, sighted_at=NOW + timedelta(seconds=101))), False),
        (replace(READY, provider_id=None), False),
    ],
)
def test_a_machine_that_neither_a_page_nor_a_lookup_shows_is_confirmed_if_it_was_expected(
    instance: Instance, *, counts: bool
) -> None:
    """Not one that is new, leaving or known to be absent, nor one that was seen after the lookup began."""
    began = NOW + timedelta(seconds=100)
    times = ObservationTimes(began=began, now=began + timedelta(seconds=2), settle=SETTLE)
    after = after_lookup(instance, None, times, unseen=True)

    assert (after is not instance) is counts
    assert not counts or after == replace(instance, observation=replace(instance.observation, unlisted_since=began))
