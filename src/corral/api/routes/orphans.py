"""The report of orphans, which are ours by name but have no record, and of instances that make no progress."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Meta

from corral.api.http.bodies import filled
from corral.api.middleware.auth import VIEWER
from corral.domain.observation.matching import UnmatchedKind
from corral.domain.observation.orphans import Orphan
from corral.domain.placement.pricing import usd
from corral.domain.timing import iso
from corral.engine.engine import Engine
from corral.engine.maintenance.orphans import OrphanRule, is_deleted
from corral.store.tables import orphans
from corral.views.instance import InstanceView
from corral.views.schemas import Time


class OrphanDetails(msgspec.Struct, rename="camel"):
    """A provider instance that carries this installation's mark and belongs to no record."""

    novita_instance_id: Annotated[str, Meta(description="Adopt it by this id to keep it.")]
    name: Annotated[str, Meta(description="Its name at the provider.")]
    instance_id: Annotated[str, Meta(description="The instance that it was made for, by its name.")]
    kind: Annotated[
        UnmatchedKind,
        Meta(
            description="`no_record`: there is no such instance; `lost_create`: a create call that was given up made"
            " it; `second_machine`: the instance has another machine, or was deleted."
        ),
    ]
    status: Annotated[str, Meta(description="As the provider says, in Corral's words.")]
    first_seen_at: Time
    region: str | None
    price: Annotated[float | None, Meta(description="USD per hour for the whole instance; null while not known.")]
    action: Annotated[
        OrphanRule,
        Meta(description="What is done with it: as CORRAL_ORPHANS says, but a `lost_create` is always deleted."),
    ]
    reason: Annotated[str, Meta(description="Why it is here, and what happens when.")]


class StuckInstance(msgspec.Struct, rename="camel"):
    """An instance that should have moved by now."""

    instance_id: str
    status: str
    since: Time
    reason: Annotated[str, Meta(description="What it waits for.")]
    next_step: Annotated[str, Meta(description="What Corral does about it.")]


class OrphanReport(msgspec.Struct):
    """Orphans and stuck instances, the oldest first."""

    orphans: Annotated[list[OrphanDetails], Meta(description="Ours by their mark, and in no record.")]
    stuck: Annotated[list[StuckInstance], Meta(description="Instances that should have moved by now.")]


def handlers(engine: Engine) -> list[HTTPRouteHandler]:
    """The route of orphans."""

    @get("/api/orphans", summary="List orphans and stuck instances", tags=["instances"], opt=VIEWER)
    async def list_orphans() -> OrphanReport:
        """Instances with the mark of another installation, or none, are not orphans; they are never touched."""
        rule, view = engine.runtime.settings.instances.orphans, engine.describer.view
        async with engine.runtime.database.connection() as connection:
            found = await orphans.load_all(connection)
        return OrphanReport(
            orphans=[_orphan(orphan, rule, view) for orphan in found],
            stuck=[filled(StuckInstance, s, status=view.status(s.phase)) for s in await engine.stuck_sweep.find()],
        )

    return [list_orphans]


_WHY: Final = {
    UnmatchedKind.NO_RECORD: "of which there is no record",
    UnmatchedKind.LOST_CREATE: "which has another machine; a create call that was given up made this one",
    UnmatchedKind.SECOND_MACHINE: "which has another machine or was deleted, and no recorded create call explains it",
}


def _orphan(orphan: Orphan, rule: OrphanRule, view: InstanceView) -> OrphanDetails:
    reason = f"it carries this installation's mark for {orphan.made_for}, {_WHY[orphan.kind]}; "
    if orphan.asked_at is not None:
        reason += f"its deletion was requested at {iso(orphan.asked_at)}"
    elif is_deleted(orphan, rule):
        reason += f"unless it is adopted, it is deleted after {iso(orphan.spared_until)}"
    else:
        reason += "it is only reported: adopt it, or delete it at the provider"
    return filled(
        OrphanDetails,
        orphan,
        novita_instance_id=orphan.provider_id,
        instance_id=orphan.made_for,
        status=view.status(orphan.phase),
        price=None if orphan.micro_usd is None else usd(orphan.micro_usd),
        action="delete" if is_deleted(orphan, rule) else "report",
        reason=reason,
    )
