"""Which machines belong to which record, and which of two is kept; a guess must never delete a machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.engines.known import FRESH
from support.provider.sightings import shown

from corral.domain.errors import GoalRefusedError
from corral.domain.instance import Instance, ProviderId
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.rebuild import InstallationRecord, RebuildOutcome, choose, installations, own_machines
from corral.domain.observation.sighting import ProviderInstance, Sighting

OURS, THEIRS = "0a1b2c", "ffffff"
NEW = InstallationRecord(own="999999", is_blank=True)


def machine(
    provider_id: str, *, of: str = "a1", attempt: int = 1, is_: Sighting = Sighting.RUNNING, by: str = OURS
) -> ProviderInstance:
    return shown(provider_id, is_, name=f"corral-{by}-inst-{of}-{attempt}")


def fates(*listed: ProviderInstance, record: Instance | None = None, doomed: str = "") -> dict[str, RebuildOutcome]:
    remembered = {} if record is None else {record.id: record}
    found = own_machines(listed, OURS, remembered, {ProviderId(doomed)})
    return {each.seen.id: each.outcome for each in found}


def test_the_only_installation_in_the_account_is_taken_by_a_blank_database() -> None:
    """The usual disaster: one Corral, one account, and a database that has just been made."""
    assert choose(NEW, {OURS: 3}, None) == OURS


def test_of_several_installations_none_is_guessed() -> None:
    """Taken for ours, another team's machines would be ours to delete."""
    with pytest.raises(GoalRefusedError, match=r"0a1b2c \(3\), ffffff \(1\): say which is yours with --installation"):
        choose(NEW, {THEIRS: 1, OURS: 3}, None)

    assert choose(NEW, {THEIRS: 1, OURS: 3}, THEIRS) == THEIRS


def test_a_database_with_an_identity_imports_no_other() -> None:
    """Whether it has instances, or only machines in the account that carry its mark."""
    assert choose(InstallationRecord(own=OURS, is_blank=False), {THEIRS: 5}, None) == OURS
    assert choose(InstallationRecord(own=OURS, is_blank=True), {THEIRS: 5, OURS: 1}, None) == OURS
    with pytest.raises(GoalRefusedError, match="has instances of installation 0a1b2c"):
        choose(InstallationRecord(own=OURS, is_blank=False), {THEIRS: 5}, THEIRS)


def test_a_mark_that_no_machine_carries_is_refused() -> None:
    """A typing error must not make a new installation."""
    with pytest.raises(
        GoalRefusedError, match=r"no machine was made by installation 0a1b2d; .* this installation: 0a1b2c"
    ):
        choose(NEW, {OURS: 3}, "0a1b2d")
    assert choose(NEW, {}, None) == NEW.own


def test_machines_are_counted_by_owner() -> None:
    """Machines without a provider name of an installation belong to none."""
    listed = [machine("p1"), machine("p2", of="b2"), machine("p3", by=THEIRS), shown("p4", Sighting.RUNNING, name="x")]

    assert installations(listed) == {OURS: 2, THEIRS: 1}


def test_only_machines_of_the_installation_are_found() -> None:
    """Everything else in the account is foreign."""
    assert fates(machine("p1"), machine("p2", by=THEIRS), shown("p3", Sighting.RUNNING, name="notes")) == {
        "p1": RebuildOutcome.REBUILT
    }


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        (Sighting.RUNNING, Sighting.RUNNING, "new"),
        (Sighting.RUNNING, Sighting.BOOTING, "old"),
        (Sighting.RUNNING, Sighting.EXITED, "old"),
        (Sighting.BOOTING, Sighting.EXITED, "old"),
        (Sighting.EXITED, Sighting.EXITED, "new"),
        (Sighting.EXITED, Sighting.REMOVING, "old"),
    ],
)
def test_of_two_machines_of_one_instance_the_newest_that_runs_is_kept(old: Sighting, new: Sighting, kept: str) -> None:
    """The other one gets its own record; only a user deletes machines."""
    found = fates(machine("old", attempt=1, is_=old), machine("new", attempt=2, is_=new))
    other = "old" if kept == "new" else "new"

    assert found[kept] is RebuildOutcome.REBUILT
    assert found[other] is (RebuildOutcome.LEAVING if Sighting.REMOVING in {old, new} else RebuildOutcome.DUPLICATE)


def test_attempts_count_on_from_the_last_one_seen() -> None:
    """A name is never used twice."""
    found = own_machines([machine("new", attempt=12, is_=Sighting.EXITED), machine("old", attempt=9)], OURS, {})

    assert [(each.seen.id, each.outcome, each.last_attempt) for each in found] == [
        ("old", RebuildOutcome.REBUILT, 12),
        ("new", RebuildOutcome.DUPLICATE, 12),
    ]


def test_what_is_remembered_stays_as_it_is() -> None:
    """Rebuilding twice changes nothing; what the service would delete is left to it."""
    known = replace(FRESH, provider_id=ProviderId("p1"), phase=Phase.READY)
    gone = replace(FRESH, phase=Phase.TERMINATED)

    assert fates(machine("p1"), record=known) == {"p1": RebuildOutcome.KNOWN}
    assert fates(machine("p1"), machine("p2", attempt=2), record=known) == {
        "p1": RebuildOutcome.KNOWN,
        "p2": RebuildOutcome.SURPLUS,
    }
    assert fates(machine("p1"), record=gone) == {"p1": RebuildOutcome.SURPLUS}


def test_a_record_from_before_its_machine_was_made_is_joined_to_it() -> None:
    """After an older backup: left alone, the service would make a second one under the same name."""
    assert fates(machine("p1"), record=FRESH) == {"p1": RebuildOutcome.JOINED}


def test_an_instance_being_deleted_is_left_alone() -> None:
    """A record would promise a machine that is about to go."""
    assert fates(machine("p1"), machine("p2", of="b2", is_=Sighting.REMOVING), doomed="p1") == {
        "p1": RebuildOutcome.LEAVING,
        "p2": RebuildOutcome.LEAVING,
    }
