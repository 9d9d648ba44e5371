"""What the stepped engine and the fault engine share: storing a create, lookups, and taking jobs from the queue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import msgspec

from corral.domain.budgets.reservation import Reservation
from corral.domain.events import Change
from corral.domain.instance import CreateRequest, Instance, InstanceId, OperationId
from corral.domain.leases.changes import new_state
from corral.domain.leases.lease import Lease
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.operation import Operation, OperationKind, OperationStatus
from corral.engine.engine import Engine
from corral.engine.observe.observer import Observer
from corral.jobs.queue import NewJob
from corral.jobs.registry import Priority
from corral.store.session.database import Database
from corral.store.tables import instances, operations, sealed_secrets

REQUEST = CreateRequest(
    name="worker", product_name="RTX 4090 24GB", template_id="107672", regions=("CN-HK-01", "AS-SGP-02")
)


RESERVED = 180_000
"""What a create reserves: an hour of the spot offer that it is expected to get."""
WITH_SECRETS = replace(REQUEST, secret_names=("HF_TOKEN", "DB_PASSWORD"))


async def look_up_changing(observer: Observer) -> None:
    """One round of every lookup of what changes; in a service they run beside each other."""
    for look_up in (observer.look_up_coming_up, observer.look_up_ending, observer.look_up_names):
        await look_up()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedJob:
    """A job that was taken from the queue."""

    name: str
    payload: dict[str, object]
    is_first: bool


async def store_create(
    engine: Engine, number: int, request: CreateRequest, *, minutes: float, lease: Lease | None = None
) -> InstanceId:
    """Write what the create command writes: instance, operation, event and job."""
    now = engine.runtime.clock.now()
    instance = Instance(
        id=InstanceId(f"inst_{number}"),
        request=request,
        goal=Goal.RUNNING,
        phase=Phase.CREATING,
        operation_id=OperationId(f"op_{number}"),
        created_at=now,
        phase_since=now,
        deadline_at=now + timedelta(minutes=minutes),
        lease=None if lease is None else new_state(lease, now),
        reservation=Reservation(micro_usd=RESERVED, at=now),
    )
    operation = Operation(
        id=instance.operation_id,
        instance_id=instance.id,
        kind=OperationKind.CREATE,
        status=OperationStatus.INITIATED,
        created_at=now,
        stamps={"startRequested": now},
    )
    async with engine.runtime.database.transaction() as connection:
        await instances.add([instance]).run(connection)
        if request.secret_names:
            sealed = engine.runtime.secret_key.load_or_create().seal(instance.id, secrets_of(instance))
            await sealed_secrets.add([sealed]).run(connection)
        await operations.add([operation]).run(connection)
        await engine.event_publisher.publish(
            connection, [Change(before=None, after=instance, because="requested", at=now)]
        )
        await engine.queue.add([NewJob(type="create_instance", payload={"instanceId": instance.id})]).run(connection)
    return instance.id


def secrets_of(instance: Instance) -> dict[str, str]:
    """The secrets that `store_create` gives an instance."""
    return {name: f"{name} of {instance.id}" for name in instance.request.secret_names}


async def fetch_jobs(database: Database) -> list[FetchedJob]:
    """Take every job from the queue, in the order in which a worker would."""
    async with database.connection() as connection:
        rows = await connection.fetch("DELETE FROM corral_pgqueuer RETURNING id, priority, entrypoint, payload")
    return [
        FetchedJob(
            name=row["entrypoint"],
            payload=msgspec.json.decode(row["payload"]),
            is_first=row["priority"] >= Priority.FIRST,
        )
        for row in sorted(rows, key=lambda r: (-r["priority"], r["id"]))
    ]
