"""Instances: make, find, wait for, start, stop and delete them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import datetime
from typing import Unpack

from corral_client.events import AsyncEvents
from corral_client.instance_reads import AsyncInstanceReads, path_of
from corral_client.models.instances import Action, Created, Instance, Progress
from corral_client.models.leases import LastUse
from corral_client.models.orders import LeaseOrder, Order, StartTerms, body_of, camel, lease_body
from corral_client.models.plans import Plan
from corral_client.transport import Transport
from corral_client.watching import Aim, watch

WAIT_SECONDS = 1800.0
"""Longer than the service itself waits for an instance by default, so that its reason is heard, not our clock."""

OnProgress = Callable[[Progress], object]


class AsyncInstances(AsyncInstanceReads):
    """`client.instances`. Wherever *named* is taken, it is an id, the provider's id or the name of a live instance."""

    def __init__(self, transport: Transport, events: AsyncEvents) -> None:
        super().__init__(transport)
        self._events = events

    async def create(self, *, idempotency_key: str | None = None, **order: Unpack[Order]) -> AsyncInstanceHandle:
        """
        Order an instance; returns as soon as the request is recorded, long before the machine is ready.

        A template, an image or both say what runs; `secrets` are environment variables that are never shown again.
        However often the connection fails meanwhile, one instance is made. A program that may be restarted passes its
        own *idempotency_key*, and gets the same instance again within 24 hours.

            >>> job = await client.instances.create(name="notebook", product_name="RTX 4090 24GB", template_id="107672")
            >>> (await job.wait_until_ready()).status
            'ready'
        """
        body = body_of(order)
        created = await self._transport.act("POST", Created, "/api/instances", body=body, key=idempotency_key)
        return AsyncInstanceHandle(self, created.instance_id, created=created)

    async def plan(self, **order: Unpack[Order]) -> Plan:
        """What `create` would try, in order, and why the rest would not do. Nothing is made."""
        query = {"dryRun": True}
        return await self._transport.act("POST", Plan, "/api/instances", query=query, body=body_of(order), key=None)

    async def adopt(self, novita_instance_id: str) -> Instance:
        """Make a machine of the provider's account an instance; one that is one already is returned as it is."""
        return await self._transport.act("POST", Instance, f"{path_of(novita_instance_id)}/adopt", body={}, key=None)

    async def set_labels(self, named: str, labels: Mapping[str, str]) -> Instance:
        """
        Replace all labels of an instance; returns it with the new ones.

            >>> (await client.instances.set_labels("train", {"team": "vision"})).labels
            {'team': 'vision'}
        """
        found = await self.get(named)
        return await self._transport.act("PATCH", Instance, path_of(found.id), body={"labels": dict(labels)}, key=None)

    async def protect(self, named: str, *, protected: bool = True) -> Instance:
        """Keep budgets from stopping an instance, or with *protected* False let them; returns it."""
        found = await self.get(named)
        return await self._transport.act("PATCH", Instance, path_of(found.id), body={"protected": protected}, key=None)

    async def set_lease(self, named: str, **lease: Unpack[LeaseOrder]) -> Instance:
        """
        Change what ends an instance; what is left out stays as it was, and None removes it. Returns the instance.

        Raises Invalid with the code INVALID_LEASE for a value that cannot be.

            >>> (await client.instances.set_lease("train", max_duration="8h", idle={"after": "30m"})).lease.max_duration
            '8h'
        """
        found = await self.get(named)
        body = lease_body(lease)
        return await self._transport.act("PATCH", Instance, f"{path_of(found.id)}/lease", body=body, key=None)

    async def extend(self, named: str, *, by: str | None = None, until: datetime | None = None) -> Instance:
        """
        Let an instance live longer: *by* a duration such as 2h, or *until* a time, which has a time zone.

        Before that time its lease does not end it. Raises Conflict with the code NO_LEASE when nothing would end it, or
        INSTANCE_NOT_RUNNING; Invalid with the code LEASE_TOO_LONG beyond the service's maximum.

            >>> leased = await client.instances.set_lease("train", max_duration="8h")
            >>> (await client.instances.extend("train", by="2h")).lease.ends_because
            'max_duration'
        """
        found = await self.get(named)
        body = camel({"by": by, "until": until})
        return await self._transport.act("POST", Instance, f"{path_of(found.id)}/extend", body=body, key=None)

    async def used(self, named: str, *, at: datetime | None = None) -> LastUse:
        """
        Report that an instance is used, now or *at* a past time, so that it does not count as idle.

        A program that works on a machine calls this once a minute, as `corral ssh` does. The time never moves back.

            >>> (await client.instances.used("train")).last_used_at.tzinfo is not None
            True
        """
        found = await self.get(named)
        body = camel({"last_used_at": at})
        return await self._transport.act("PUT", LastUse, f"{path_of(found.id)}/last-used", body=body, key=None)

    async def start(
        self, named: str, *, idempotency_key: str | None = None, **terms: Unpack[StartTerms]
    ) -> AsyncInstanceHandle:
        """
        Have a stopped instance started, or one that failed and still exists; returns as soon as that is recorded.

        Raises Invalid with the code INSTANCE_NOT_STARTABLE when it is neither, Conflict while something is under way.

            >>> job = await client.instances.stop("train")
            >>> (await job.wait_until_stopped()).status
            'exited'
            >>> job = await client.instances.start("train")
            >>> (await job.wait_until_ready()).status
            'ready'
        """
        return await self._ask_for("start", named, idempotency_key, camel(terms))

    async def restart(
        self, named: str, *, idempotency_key: str | None = None, **terms: Unpack[StartTerms]
    ) -> AsyncInstanceHandle:
        """Have a running instance restarted; otherwise as `start`."""
        return await self._ask_for("restart", named, idempotency_key, camel(terms))

    async def stop(self, named: str, *, idempotency_key: str | None = None) -> AsyncInstanceHandle:
        """
        Have an instance stopped.

        The provider keeps its disk for some days, until `data_kept_until`: so long it can be started again while the
        provider has a GPU free there.
        An instance that is stopped or stopping already stays so. Raises Invalid with the code INSTANCE_NOT_STOPPABLE
        when there is nothing to stop yet, or no longer.

            >>> job = await client.instances.stop("train")
            >>> (await job.wait_until_stopped()).status
            'exited'
        """
        return await self._ask_for("stop", named, idempotency_key, {})

    async def delete(self, named: str, *, idempotency_key: str | None = None) -> AsyncInstanceHandle:
        """
        Have an instance deleted; it is `deleting`, and asked for again, until the provider says it is gone.

            >>> job = await client.instances.delete("train")
            >>> (await job.wait_until_gone()).is_gone
            True
        """
        found = await self.get(named)
        receipt = await self._transport.act("DELETE", Action, path_of(found.id), key=idempotency_key)
        return AsyncInstanceHandle(self, found.id, action=receipt)

    def handle(self, instance_id: str) -> AsyncInstanceHandle:
        """A handle of an instance by its id; sends no request."""
        return AsyncInstanceHandle(self, instance_id)

    async def watch(
        self, named: str, *, timeout: float | None = WAIT_SECONDS, aim: Aim = Aim.READY
    ) -> AsyncGenerator[Progress]:
        """
        How far an instance is: at once, then with every change, until it is ready (or stopped, or gone, as *aim* says).

        Raises InstanceFailed when it will not get there, WaitTimeout when it did not in *timeout* seconds.
        """
        found = await self.get(named)
        watching = watch(self._by_id, self._events, found, aim=aim, timeout=timeout)
        async with contextlib.aclosing(watching):
            async for progress in watching:
                yield progress

    async def wait_until_ready(
        self, named: str, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """
        The instance, once it is ready; *on_progress* is called with every change on the way.

        Raises InstanceFailed when it will not become ready, WaitTimeout when it did not in *timeout* seconds. Either
        way, and when the wait is cancelled, the instance is left alone.
        """
        return await self._wait(named, Aim.READY, timeout, on_progress)

    async def wait_until_stopped(
        self, named: str, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """The instance, once the provider says that it no longer runs; otherwise as `wait_until_ready`."""
        return await self._wait(named, Aim.STOPPED, timeout, on_progress)

    async def wait_until_gone(
        self, named: str, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """The instance, once the provider says that it is gone, and nothing is billed any more."""
        return await self._wait(named, Aim.GONE, timeout, on_progress)

    async def _wait(self, named: str, aim: Aim, timeout: float | None, on_progress: OnProgress | None) -> Instance:
        last: Progress | None = None
        async with contextlib.aclosing(self.watch(named, timeout=timeout, aim=aim)) as watching:
            async for last in watching:
                if on_progress is not None:
                    on_progress(last)
        assert last is not None, "a watch yields at least once"  # noqa: S101
        return last.instance

    async def _ask_for(
        self, verb: str, named: str, key: str | None, terms: Mapping[str, object]
    ) -> AsyncInstanceHandle:
        found = await self.get(named)
        receipt = await self._transport.act("POST", Action, f"{path_of(found.id)}/{verb}", body=terms, key=key)
        return AsyncInstanceHandle(self, found.id, action=receipt)


class AsyncInstanceHandle:
    """One instance; `created` or `action` is the receipt of the command that returned this handle, if one did."""

    def __init__(
        self,
        instances: AsyncInstances,
        instance_id: str,
        *,
        created: Created | None = None,
        action: Action | None = None,
    ) -> None:
        self._instances = instances
        self.id = instance_id
        self.created = created
        self.action = action

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    async def get(self) -> Instance:
        """The instance as it is now."""
        return await self._instances.get(self.id)

    async def wait_until_ready(
        self, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """As `client.instances.wait_until_ready`."""
        return await self._instances.wait_until_ready(self.id, timeout=timeout, on_progress=on_progress)

    async def wait_until_gone(
        self, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """As `client.instances.wait_until_gone`."""
        return await self._instances.wait_until_gone(self.id, timeout=timeout, on_progress=on_progress)

    async def wait_until_stopped(
        self, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """As `client.instances.wait_until_stopped`."""
        return await self._instances.wait_until_stopped(self.id, timeout=timeout, on_progress=on_progress)

    async def start(self, **terms: Unpack[StartTerms]) -> AsyncInstanceHandle:
        """As `client.instances.start`."""
        return await self._instances.start(self.id, **terms)

    async def restart(self, **terms: Unpack[StartTerms]) -> AsyncInstanceHandle:
        """As `client.instances.restart`."""
        return await self._instances.restart(self.id, **terms)

    async def stop(self) -> AsyncInstanceHandle:
        """As `client.instances.stop`."""
        return await self._instances.stop(self.id)

    async def delete(self) -> AsyncInstanceHandle:
        """As `client.instances.delete`."""
        return await self._instances.delete(self.id)
