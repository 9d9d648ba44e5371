"""Which record gets a machine that is known only by its name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.engines.known import FRESH, NOW, altered
from support.provider.sightings import shown

from corral.domain.instance import CreateAttempt, Instance, Observation, ProviderId
from corral.domain.lifecycle.phases import Goal
from corral.domain.observation.matching import UnmatchedKind, matched
from corral.domain.observation.provider_names import ProviderName, provider_name
from corral.domain.observation.sighting import ProviderInstance, Sighting

RUNNING, REMOVING, ABSENT = Sighting.RUNNING, Sighting.REMOVING, Sighting.ABSENT
HAS = replace(
    FRESH, create=CreateAttempt(number=2), provider_id=ProviderId("p0"), observation=Observation(sighting=RUNNING)
)
DOUBTFUL = replace(
    FRESH,
    create=CreateAttempt(number=2, sent_at=NOW),
)
GONE = replace(HAS, goal=Goal.GONE)


def machine(provider_id: str, attempt: int, sighting: Sighting = RUNNING) -> tuple[ProviderName, ProviderInstance]:
    origin = ProviderName(installation="0a1b2c", instance_id=FRESH.id, attempt=attempt)
    return origin, shown(provider_id, sighting, name=provider_name(origin))


def given(
    record: Instance | None, *machines: tuple[ProviderName, ProviderInstance]
) -> tuple[str | None, dict[str, str]]:
    """The machine that the record gets, and the kinds of the others."""
    matches, unmatched, to_confirm = matched({} if record is None else {record.id: record}, machines)
    assert len(matches) <= 1
    assert to_confirm == []
    return next((m.seen.id for m in matches), None), {each.seen.id: each.kind.value for each in unmatched}


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_lost_create_is_adopted(attempt: int) -> None:
    """Also when the instance is to be deleted: only then can its machine be."""
    for goal in Goal:
        assert given(replace(DOUBTFUL, goal=goal), machine("p1", attempt)) == ("p1", {})


def test_a_later_attempt_than_recorded_is_adopted_because_the_record_is_the_older_one() -> None:
    """A restored backup has fewer attempts than its machines."""
    assert given(FRESH, machine("p1", 1)) == ("p1", {})
    assert given(DOUBTFUL, machine("p1", 7)) == ("p1", {})


def test_a_deleted_request_does_not_take_a_machine_that_it_never_asked_for() -> None:
    """On a copy of a database, deleting the request would delete the machine of the original."""
    assert given(replace(FRESH, goal=Goal.GONE), machine("p1", 1)) == (None, {"p1": "second_machine"})


@pytest.mark.parametrize(
    "gone",
    [
        {"sighting": ABSENT},
        {"sighting": REMOVING},
        {"unlisted_since": NOW, "absence_checks": 1},
    ],
)
def test_a_machine_that_the_provider_moved_is_adopted(gone: dict[str, object]) -> None:
    """The same name under another id, once the old id is gone or going."""
    assert given(altered(HAS, observation=gone), machine("p1", 2)) == ("p1", {})


@pytest.mark.parametrize("known", [{}, {"unlisted_since": NOW}])
def test_of_two_machines_under_one_name_the_recorded_one_is_kept_while_it_is_there(known: dict[str, object]) -> None:
    """Missing in a list is not gone yet; the other one is reported."""
    record = altered(HAS, observation=known)

    assert given(record, machine("p1", 2)) == (None, {"p1": "second_machine"})


def test_a_machine_under_the_name_of_one_that_the_listing_lacks_is_adopted_only_after_a_lookup() -> None:
    """The list may be wrong, and the other machine that of another copy of the database."""
    matches, unmatched, to_confirm = matched({HAS.id: HAS}, [machine("p1", 2)], {HAS.id})

    assert (matches, unmatched, [match.seen.id for match in to_confirm]) == ([], [], ["p1"])


def test_another_attempt_does_not_replace_a_machine_that_is_gone() -> None:
    """It is no move: the name would be the same."""
    assert given(
        replace(HAS, observation=replace(HAS.observation, sighting=ABSENT)), machine("p1", 1), machine("p3", 3)
    ) == (
        None,
        {"p1": "second_machine", "p3": "second_machine"},
    )


def test_the_attempt_that_made_the_machine_counts_and_not_the_last_one() -> None:
    """An earlier attempt than the last one may have made it."""
    record = replace(HAS, provider_attempt=1, observation=replace(HAS.observation, sighting=ABSENT))

    assert given(record, machine("p1", 1)) == ("p1", {})
    assert given(record, machine("p1", 2)) == (None, {"p1": "second_machine"})


def test_a_moved_machine_of_a_deleted_instance_is_reported() -> None:
    """It may as well be the machine of another copy of the database."""
    assert given(replace(GONE, observation=replace(GONE.observation, sighting=ABSENT)), machine("p1", 2)) == (
        None,
        {"p1": "second_machine"},
    )


def test_a_given_up_create_is_distinguished_from_an_unexplained_machine() -> None:
    """The first is certainly ours."""
    record = replace(HAS, given_up=(1,))

    assert given(record, machine("p1", 1), machine("p3", 3)) == (None, {"p1": "lost_create", "p3": "second_machine"})


def test_of_several_the_newest_that_runs_is_taken() -> None:
    """As after the loss of the database."""
    machines = [machine("p1", 1), machine("p2", 2), machine("p3", 3, Sighting.EXITED)]

    assert given(FRESH, *machines) == ("p2", {"p1": "second_machine", "p3": "second_machine"})


def test_what_goes_is_not_reported() -> None:
    """Nothing needs to be done about it."""
    assert given(HAS, machine("p1", 1, REMOVING), machine("p2", 3, ABSENT)) == (None, {})
    assert given(None, machine("p1", 1, REMOVING)) == (None, {})


def test_what_has_no_record_is_reported() -> None:
    """Its rows were lost, or belong to a backup that is older than it."""
    assert given(None, machine("p1", 1)) == (None, {"p1": UnmatchedKind.NO_RECORD})
