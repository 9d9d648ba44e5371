"""Instances: make, find, wait for, start, stop and delete them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Unpack
from urllib.parse import quote

from corral_client.errors import Ambiguous, NotFound
from corral_client.events import AsyncEvents
from corral_client.models import GONE, Action, Created, Instance, InstancePage, Operation, OperationList, Plan, Progress
from corral_client.orders import Order, StartTerms, camel
from corral_client.transport import Transport
from corral_client.watching import Aim, watch

WAIT_SECONDS = 1800.0
"""Longer than the service itself waits for an instance by default, so that its reason is heard, not our clock."""

OnProgress = Callable[[Progress], object]


class AsyncInstances:
    """`client.instances`. Wherever *named* is taken, it is an id, the provider's id or the name of a live instance."""

    def __init__(self, transport: Transport, events: AsyncEvents) -> None:
        self._transport = transport
        self._events = events

    async def create(self, *, idempotency_key: str | None = None, **order: Unpack[Order]) -> AsyncInstanceHandle:
        """
        Order an instance; returns as soon as the request is recorded, long before the machine is ready.

        However often the connection fails meanwhile, one instance is made. A program that may be restarted passes its
        own *idempotency_key*, and gets the same instance again within 24 hours.

            >>> job = await client.instances.create(name="notebook", product_name="RTX 4090 24GB", template_id="107672")
            >>> (await job.wait_until_ready()).status
            'ready'
        """
        body = camel(order)
        created = await self._transport.act("POST", Created, "/api/instances", body=body, key=idempotency_key)
        return AsyncInstanceHandle(self, created.instance_id, created=created)

    async def plan(self, **order: Unpack[Order]) -> Plan:
        """What `create` would try, in order, and why the rest would not do. Nothing is made."""
        query = {"dryRun": True}
        return await self._transport.act("POST", Plan, "/api/instances", query=query, body=camel(order), key=None)

    async def get(self, named: str) -> Instance:
        """
        One instance as it is now; raises NotFound, or Ambiguous when several live ones have that name.

        A name that only deleted instances had means the last of them.
        """
        if named.startswith("inst_"):
            try:
                return await self._by_id(named)
            except NotFound as missing:
                return _chosen(named, await self._by_name(named), missing)
        found = await self._by_name(named)
        if any(instance.status not in GONE for instance in found):
            return _chosen(named, found, None)
        try:
            return await self._by_id(named)
        except NotFound as missing:
            return _chosen(named, found, missing)

    async def list(
        self,
        *,
        status: str | None = None,
        name: str | None = None,
        region: str | None = None,
        owner: str | None = None,
        page_size: int = 100,
    ) -> AsyncGenerator[Instance]:
        """
        All instances that match, newest first, read page by page as they are consumed.

        *owner* is the name of the key that created it, or `local`; a service of an earlier release ignores it.

            >>> [instance.name async for instance in client.instances.list(status="ready", name="train")]
            ['train']
        """
        start, seen = dict[str, str | int](), set[str]()
        while True:
            query = {"status": status, "name": name, "region": region, "owner": owner, "limit": page_size, **start}
            page = await self._transport.get(InstancePage, "/api/instances", query)
            new = [instance for instance in page.instances if instance.id not in seen]
            seen.update(instance.id for instance in new)
            for instance in new:
                yield instance
            if len(page.instances) < page_size:
                return
            if new and "offset" not in start:
                start = {"after": page.instances[-1].id}
            else:  # a service of an earlier release ignores `after`: it returned the first page again
                start = {"offset": int(start.get("offset", 0)) + page_size}

    async def count(self, *, status: str | None = None, name: str | None = None, region: str | None = None) -> int:
        """How many instances match, also those that are gone, without reading them."""
        query = {"status": status, "name": name, "region": region, "limit": 1}
        return (await self._transport.get(InstancePage, "/api/instances", query)).total

    async def adopt(self, novita_instance_id: str) -> Instance:
        """Make a machine of the provider's account an instance; one that is one already is returned as it is."""
        return await self._transport.act("POST", Instance, f"{_path(novita_instance_id)}/adopt", body={}, key=None)

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
        Have an instance stopped: it keeps its disk, and can be started again while the provider has a GPU free there.

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
        receipt = await self._transport.act("DELETE", Action, _path(found.id), key=idempotency_key)
        return AsyncInstanceHandle(self, found.id, action=receipt)

    async def operations(self, named: str) -> Sequence[Operation]:
        """What was asked of an instance, newest first."""
        found = await self.get(named)
        return (await self._transport.get(OperationList, f"{_path(found.id)}/operations")).operations

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
        receipt = await self._transport.act("POST", Action, f"{_path(found.id)}/{verb}", body=terms, key=key)
        return AsyncInstanceHandle(self, found.id, action=receipt)

    async def _by_id(self, instance_id: str) -> Instance:
        return await self._transport.get(Instance, _path(instance_id))

    async def _by_name(self, name: str) -> Sequence[Instance]:
        return [instance async for instance in self.list(name=name)]


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


def _chosen(name: str, found: Sequence[Instance], missing: NotFound | None) -> Instance:
    """The one instance of *found* that *name* means."""
    live = [instance for instance in found if instance.status not in GONE]
    if len(live) > 1:
        raise Ambiguous(name, live)
    if not found:
        raise missing or NotFound(f"there is no instance {name!r}", code="INSTANCE_NOT_FOUND", status=404)
    return live[0] if live else found[0]


def _path(instance_id: str) -> str:
    return f"/api/instances/{quote(instance_id, safe='')}"
