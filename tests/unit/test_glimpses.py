"""What was just seen of a single instance, and who may make use of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from support.sightings import shown

from corral.domain.instance import Instance, InstanceId, OperationId, Order, ProviderId
from corral.domain.lifecycle import Goal, Phase
from corral.domain.sighting import Connection, Sighting
from corral.engine.glimpses import FRESH, MOST, Glimpses

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SEEN = shown("p1", Sighting.RUNNING)
UP = Instance(
    id=InstanceId("inst_1"),
    order=Order(name="worker", product_name="RTX 4090 24GB", template_id="1", regions=("CN-HK-01",)),
    goal=Goal.RUNNING,
    phase=Phase.RUNNING,
    operation_id=OperationId("op_1"),
    created_at=NOW,
    phase_since=NOW,
    deadline_at=None,
    provider_id=ProviderId("p1"),
    sighting=Sighting.RUNNING,
    sighted_at=NOW,
)


def test_what_was_seen_serves_one_pass() -> None:
    """The next one, which finds that something was missing in it, asks anew."""
    glimpses = Glimpses()
    glimpses.keep(SEEN, NOW)

    assert [glimpses.take(UP, NOW), glimpses.take(UP, NOW)] == [SEEN, None]


def test_what_is_old_or_not_what_the_record_tells_of_serves_nobody() -> None:
    """Something else was heard since, or so much time passed that it may be otherwise."""
    for instance, now in (
        (replace(UP, sighted_at=NOW + timedelta(seconds=1)), NOW + timedelta(seconds=1)),
        (UP, NOW + FRESH + timedelta(seconds=1)),
        (replace(UP, provider_id=ProviderId("p2")), NOW),
        (replace(UP, provider_id=None), NOW),
    ):
        glimpses = Glimpses()
        glimpses.keep(SEEN, NOW)

        assert glimpses.take(instance, now) is None


def test_it_keeps_few_and_no_password() -> None:
    """Nobody may come for them."""
    glimpses = Glimpses()
    glimpses.keep(SEEN, NOW)
    for number in range(MOST):
        glimpses.keep(shown(f"q{number}", Sighting.RUNNING), NOW)
    assert glimpses.take(UP, NOW) is None

    glimpses.keep(replace(SEEN, connection=Connection(ssh_command="ssh", ssh_password="secret")), NOW)
    seen = glimpses.take(UP, NOW)
    assert seen is not None
    assert seen.connection is not None
    assert (seen.connection.ssh_command, seen.connection.ssh_password) == ("ssh", None)
