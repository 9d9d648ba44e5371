"""Which spans begin and end when a record changes."""

from __future__ import annotations

from datetime import timedelta

from support.engines.known import FRESH, NOW, altered
from support.provider.sightings import shown

from corral.domain.costs.changes import usage_changes
from corral.domain.costs.meter import MeterState
from corral.domain.costs.usage import UsageCause, UsageKind
from corral.domain.instance import Placement, ProviderId
from corral.domain.lifecycle.phases import Phase
from corral.domain.lifecycle.transitions import created
from corral.domain.observation.matching import Match
from corral.domain.observation.observations import ObservationTimes, with_machine, with_sighting
from corral.domain.observation.provider_names import ProviderName
from corral.domain.observation.sighting import Sighting
from corral.domain.placement.catalog import BillingMode

SENT = NOW + timedelta(seconds=5)
LATER = NOW + timedelta(minutes=5)
TIMES = ObservationTimes(began=LATER, now=LATER, settle=timedelta(minutes=1))
PLACED = Placement(region="R", cluster_id="c", product_id="p", billing_mode=BillingMode.SPOT, micro_usd=180_000)
WAITING = altered(FRESH, placement=PLACED)
CALLED = altered(WAITING, create={"number": 1, "sent_at": SENT})
MADE = created(CALLED, "p-1", SENT + timedelta(seconds=1))
RUNNING = with_sighting(MADE, shown("p-1", Sighting.RUNNING, stopped_at=None), TIMES)


def test_a_create_call_may_cause_usage_from_when_it_is_sent() -> None:
    """Its machine has no id yet; a small disk costs nothing."""
    (change,) = usage_changes(WAITING, CALLED, SENT)
    assert (change.provider_id, change.kind, change.changes_open) == ("inst_a1:1", UsageKind.GPU, False)
    assert change.begins is not None
    assert (change.begins.since, change.begins.started) == (SENT, None)
    assert (change.begins.terms.unit_price, change.begins.terms.quantity) == (180_000 * 24, 1)


def test_its_usage_becomes_that_of_the_machine() -> None:
    """The id is all that changes."""
    (change,) = usage_changes(CALLED, MADE, LATER)
    assert (change.provider_id, change.becomes, change.begins) == ("inst_a1:1", "p-1", None)
    assert (change.started, change.ended) == (None, None)


def test_a_call_that_made_nothing_caused_none() -> None:
    """A refusal is certain; after a doubt the machine may have been billed until the doubt was over."""
    (refused, _) = usage_changes(CALLED, WAITING, LATER)
    assert refused.is_void
    (doubted, _) = usage_changes(altered(CALLED, create={"doubted_at": SENT}), WAITING, LATER)
    assert not doubted.is_void
    assert doubted.ended is not None
    assert doubted.ended.by == LATER


def test_a_machine_that_is_found_while_it_is_removed_may_have_been_billed_since_its_create() -> None:
    """Its status does not say, and the create call is the last that is known of it."""
    found = Match(
        record=CALLED,
        origin=ProviderName(installation="0a1b2c", instance_id=FRESH.id, attempt=1),
        seen=shown("p-1", Sighting.REMOVING),
        moved=False,
    )
    after = with_machine(found, TIMES)
    assert after.observation.meter is not None
    assert (after.observation.meter.gpu.state, after.observation.meter.gpu.at) == (MeterState.EXPECTED, SENT)
    change = usage_changes(CALLED, after, LATER)[1]
    assert (change.becomes, change.known_at, change.confirmed_at) == ("p-1", SENT, SENT)


def test_another_cause_ends_a_span_and_begins_the_next_at_one_instant() -> None:
    """That the machine was billed until then is confirmed by later observations."""
    ready = altered(RUNNING, phase=Phase.READY)
    (change,) = usage_changes(RUNNING, ready, LATER)
    assert change.ended is not None
    assert change.begins is not None
    assert change.begins.started is not None
    assert change.ended.by == change.begins.since == change.begins.started.by == LATER
    assert (change.is_off, change.begins.terms.cause) == (False, UsageCause.SERVING)


def test_the_same_again_changes_nothing() -> None:
    """Most writes of an instance are of this kind."""
    later = altered(RUNNING, observation={"sighted_at": LATER + timedelta(minutes=1)})
    assert usage_changes(RUNNING, later, LATER) == []
    assert usage_changes(RUNNING, RUNNING, LATER) == []


def test_a_stop_and_a_start_between_two_observations_are_a_gap() -> None:
    """The provider's own time of the stop shows that it was not billed all the time."""
    stopped_at = LATER + timedelta(minutes=2)
    seen = shown("p-1", Sighting.RUNNING, stopped_at=stopped_at)
    again = LATER + timedelta(minutes=9)
    after = with_sighting(RUNNING, seen, ObservationTimes(began=again, now=again, settle=TIMES.settle))
    (change,) = usage_changes(RUNNING, after, again)
    assert change.is_off
    assert change.ended is not None
    assert change.ended.ceiling == stopped_at + timedelta(seconds=60)
    assert change.begins is not None


def test_a_machine_that_moved_leaves_its_usage_behind() -> None:
    """The old one may be billed until a listing shows that it is gone."""
    moved = altered(RUNNING, provider_id=ProviderId("p-2"))
    left, new, _ = usage_changes(RUNNING, moved, LATER)
    assert left.provider_id == "p-1"
    assert left.begins is not None
    assert left.begins.terms.cause is UsageCause.OVERLAP
    assert (new.provider_id, new.begins is not None) == ("p-2", True)
