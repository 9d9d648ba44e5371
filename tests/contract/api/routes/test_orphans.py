"""Orphans and stuck instances, as callers see them."""

from __future__ import annotations

import pytest
import structlog
from support.clock.clocks import SteppedClock
from support.engines.runtime import INSTALLATION
from support.http.served_api import opened
from support.http.served_api_with_provider import staged
from support.provider.sightings import shown

from corral.cloud.port import Listing
from corral.domain.instance import ProviderId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.sighting import Sighting
from corral.engine.events.publisher import EventPublisher
from corral.engine.maintenance.orphans import OrphanRule
from corral.engine.maintenance.stuck import StuckSweep
from corral.engine.observe.observations import Observations
from corral.jobs.registry import JobId, JobRun
from corral.store.session.database import Database

NOW = "2030-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("rule", "what_follows"),
    [
        ("report", "it is only reported: adopt it, or delete it at the provider"),
        ("delete", "unless it is adopted, it is deleted after 2030-01-01T01:00:00.000Z"),
    ],
)
async def test_an_orphan_is_listed_with_what_follows(database: Database, rule: OrphanRule, what_follows: str) -> None:
    """CORRAL_ORPHANS decides, and the report says so; it is found once, however often it is listed."""
    async with staged(database, orphans=rule) as served:
        env = served.api.env
        sightings = Observations(
            database=database,
            queue=env.queue,
            clock=env.clock,
            policy=Policy(),
            installation=INSTALLATION,
            event_publisher=EventPublisher(env.queue),
        )
        name = f"corral-{INSTALLATION}-inst-lost-1"
        lost = shown("p1", Sighting.RUNNING, name=name, cluster_id="hk", cluster_name="CN-HK-01 (Hong Kong)")
        other = shown("p2", Sighting.RUNNING, name="corral-ffffff-inst-lost-1")
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                listing = Listing(instances=(lost, other), complete=True, pages=1)
                await sightings.record(listing, began=env.clock.now())
                env.clock.advance(2)
        answer = await served.api.get("/api/orphans")

        assert [entry["event"] for entry in logs if entry["event"].startswith("orphan")] == ["orphan.found"]
        assert answer.json == {
            "orphans": [
                {
                    "novitaInstanceId": "p1",
                    "name": name,
                    "instanceId": "inst_lost",
                    "kind": "no_record",
                    "status": "running",
                    "firstSeenAt": NOW,
                    "region": "CN-HK-01",
                    "price": None,
                    "action": rule,
                    "reason": "it carries this installation's mark for inst_lost, of which there is no record; "
                    + what_follows,
                }
            ],
            "stuck": [],
        }
        numbers = (await served.api.get("/metrics")).body.decode()
        assert numbers.count("corral_orphans 1.0") == 1


async def test_what_makes_no_progress_is_listed_with_the_reason(database: Database) -> None:
    """A machine that cannot be deleted costs money and must be seen; it is logged once."""
    async with opened(database) as api:
        made = (await api.request_create()).json["instanceId"]
        await api.change(
            made,
            goal=Goal.GONE,
            phase=Phase.DELETING,
            observation={"provider_status": "running"},
            provider_id=ProviderId("p1"),
            deadline_at=None,
        )
        clock: SteppedClock = api.env.clock
        clock.advance(599)
        before = (await api.get("/api/orphans")).json
        clock.advance(1)
        after = (await api.get("/api/orphans")).json
        sweep = StuckSweep(database=database, clock=clock)
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                await sweep.sweep(JobRun(id=JobId(1), type="sweep_stuck", payload={}, attempt=1))

        assert before == {"orphans": [], "stuck": []}
        (stuck,) = after["stuck"]
        assert (stuck["instanceId"], stuck["status"], stuck["since"]) == (made, "deleting", NOW)
        assert stuck["reason"] == "deleting for more than 10 minutes; the provider says running"
        assert "at most 4 minutes apart" in stuck["nextStep"]
        assert [entry["event"] for entry in logs] == ["instance.stuck"]
