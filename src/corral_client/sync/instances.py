"""Instances, for programs without an event loop."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Generator, Mapping
from datetime import datetime
from typing import Any, Unpack

from corral_client.instances import WAIT_SECONDS, AsyncInstanceHandle, AsyncInstances, OnProgress
from corral_client.models.instances import Action, Created, Instance, Progress
from corral_client.models.leases import LastUse
from corral_client.models.orders import LeaseOrder, Order, StartTerms
from corral_client.models.plans import Plan
from corral_client.sync.instance_reads import InstanceReads
from corral_client.sync.looping import LoopThread
from corral_client.watching import Aim


class Instances(InstanceReads):
    """`client.instances`; see `AsyncInstances`."""

    def __init__(self, inner: AsyncInstances, loop: LoopThread) -> None:
        super().__init__(inner, loop)
        self._inner = inner

    def create(self, *, idempotency_key: str | None = None, **order: Unpack[Order]) -> InstanceHandle:
        """
        Order an instance; returns as soon as the request is recorded, long before the machine is ready.

            >>> order = dict(name="notebook", product_name="RTX 4090 24GB", template_id="107672")
            >>> job = client.instances.create(**order)
            >>> job.created.status
            'creating'
            >>> job.wait_until_ready().status
            'ready'
        """
        made = self._loop.run(self._inner.create(idempotency_key=idempotency_key, **order))
        return InstanceHandle(self, made.id, created=made.created)

    def plan(self, **order: Unpack[Order]) -> Plan:
        """
        What `create` would try, in order, and why the rest would not do. Nothing is made.

            >>> plan = client.instances.plan(name="any", product_name="RTX 4090 24GB", template_id="107672")
            >>> plan.candidates[0].region, plan.candidates[0].price
            ('CN-HK-01', 0.18)
        """
        return self._loop.run(self._inner.plan(**order))

    def adopt(self, novita_instance_id: str) -> Instance:
        """
        Make a machine of the provider's account an instance; one that is one already is returned as it is.

            >>> machine = client.instances.get("train").novita_instance_id
            >>> client.instances.adopt(machine).name
            'train'
        """
        return self._loop.run(self._inner.adopt(novita_instance_id))

    def set_labels(self, named: str, labels: Mapping[str, str]) -> Instance:
        """
        Replace all labels of an instance; returns it with the new ones.

            >>> client.instances.set_labels("train", {"team": "vision"}).labels
            {'team': 'vision'}
            >>> [instance.name for instance in client.instances.list(label="team:vision", status="ready")]
            ['train']
        """
        return self._loop.run(self._inner.set_labels(named, labels))

    def protect(self, named: str, *, protected: bool = True) -> Instance:
        """
        Keep budgets from stopping an instance, or with *protected* False let them; returns it.

            >>> client.instances.protect("train").protected
            True
        """
        return self._loop.run(self._inner.protect(named, protected=protected))

    def set_lease(self, named: str, **lease: Unpack[LeaseOrder]) -> Instance:
        """
        Change what ends an instance; what is left out stays as it was, and None removes it. Returns the instance.

        Raises Invalid with the code INVALID_LEASE for a value that cannot be.

            >>> client.instances.set_lease("train", idle={"after": "30m"}, on_end="stop").lease.idle.after
            '30m'
            >>> client.instances.set_lease("train", max_duration=None, idle=None, schedule=None).lease is None
            True
        """
        return self._loop.run(self._inner.set_lease(named, **lease))

    def extend(self, named: str, *, by: str | None = None, until: datetime | None = None) -> Instance:
        """
        Let an instance live longer: *by* a duration such as 2h, or *until* a time, which has a time zone.

        Before that time its lease does not end it. Raises Conflict with the code NO_LEASE when nothing would end it, or
        INSTANCE_NOT_RUNNING; Invalid with the code LEASE_TOO_LONG beyond the service's maximum.

            >>> before = client.instances.set_lease("train", max_duration="8h").lease.ends_at
            >>> (client.instances.extend("train", by="2h").lease.ends_at - before).total_seconds()
            7200.0
        """
        return self._loop.run(self._inner.extend(named, by=by, until=until))

    def used(self, named: str, *, at: datetime | None = None) -> LastUse:
        """
        Report that an instance is used, now or *at* a past time, so that it does not count as idle.

        A program that works on a machine calls this once a minute, as `corral ssh` does. The time never moves back.

            >>> first = client.instances.used("train").last_used_at
            >>> client.instances.used("train").last_used_at >= first
            True
        """
        return self._loop.run(self._inner.used(named, at=at))

    def start(self, named: str, *, idempotency_key: str | None = None, **terms: Unpack[StartTerms]) -> InstanceHandle:
        """
        Have a stopped instance started, or one that failed and still exists; returns as soon as that is recorded.

        Raises Invalid with the code INSTANCE_NOT_STARTABLE when it is neither, Conflict while something is under way.

            >>> client.instances.stop("train").wait_until_stopped().status
            'exited'
            >>> client.instances.start("train").wait_until_ready().status
            'ready'
        """
        return self._handle(self._inner.start(named, idempotency_key=idempotency_key, **terms))

    def restart(self, named: str, *, idempotency_key: str | None = None, **terms: Unpack[StartTerms]) -> InstanceHandle:
        """
        Have a running instance restarted; otherwise as `start`.

            >>> client.instances.restart("train").wait_until_ready().status
            'ready'
        """
        return self._handle(self._inner.restart(named, idempotency_key=idempotency_key, **terms))

    def stop(self, named: str, *, idempotency_key: str | None = None) -> InstanceHandle:
        """
        Have an instance stopped.

        The provider keeps its disk for some days, until `data_kept_until`: so long it can be started again while the
        provider has a GPU free there.
        An instance that is stopped or stopping already stays so. Raises Invalid with the code INSTANCE_NOT_STOPPABLE
        when there is nothing to stop yet, or no longer.

            >>> client.instances.stop("train").wait_until_stopped().status
            'exited'
        """
        return self._handle(self._inner.stop(named, idempotency_key=idempotency_key))

    def delete(self, named: str, *, idempotency_key: str | None = None) -> InstanceHandle:
        """
        Have an instance deleted; it is `deleting`, and asked for again, until the provider says it is gone.

            >>> client.instances.delete("train").wait_until_gone().is_gone
            True
        """
        return self._handle(self._inner.delete(named, idempotency_key=idempotency_key))

    def handle(self, instance_id: str) -> InstanceHandle:
        """
        A handle of an instance by its id; sends no request.

            >>> instance_id = client.instances.get("train").id  # or from your own records
            >>> client.instances.handle(instance_id).get().name
            'train'
        """
        return InstanceHandle(self, instance_id)

    def watch(self, named: str, *, timeout: float | None = WAIT_SECONDS, aim: Aim = Aim.READY) -> Generator[Progress]:
        """
        How far an instance is: at once, then with every change, until it is ready (or stopped, or gone: *aim*).

            >>> [progress.instance.status for progress in client.instances.watch("train")][-1]
            'ready'
        """
        return self._loop.iterate(self._inner.watch(named, timeout=timeout, aim=aim))

    def wait_until_ready(
        self, named: str, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """
        The instance, once it is ready; *on_progress* is called, on this thread, with every change on the way.

        Raises InstanceFailed when it will not become ready, WaitTimeout when it did not in *timeout* seconds. Either
        way, and when the wait is interrupted, the instance is left alone.

            >>> client.instances.wait_until_ready("train", on_progress=lambda p: print(p.instance.status)).name
            ready
            'train'
        """
        return self._wait(named, Aim.READY, timeout, on_progress)

    def wait_until_stopped(
        self, named: str, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """
        The instance, once the provider says that it no longer runs; otherwise as `wait_until_ready`.

            >>> job = client.instances.stop("train")
            >>> client.instances.wait_until_stopped("train", timeout=120).status
            'exited'
        """
        return self._wait(named, Aim.STOPPED, timeout, on_progress)

    def wait_until_gone(
        self, named: str, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """
        The instance, once the provider says that it is gone, and nothing is billed any more.

            >>> job = client.instances.delete("train")
            >>> client.instances.wait_until_gone(job.id, timeout=120).status
            'terminated'
        """
        return self._wait(named, Aim.GONE, timeout, on_progress)

    def _handle(self, asking: Coroutine[Any, Any, AsyncInstanceHandle]) -> InstanceHandle:
        made = self._loop.run(asking)
        return InstanceHandle(self, made.id, action=made.action)

    def _wait(self, named: str, aim: Aim, timeout: float | None, on_progress: OnProgress | None) -> Instance:
        last: Progress | None = None
        with contextlib.closing(self.watch(named, timeout=timeout, aim=aim)) as watching:
            for last in watching:
                if on_progress is not None:
                    on_progress(last)
        assert last is not None, "a watch yields at least once"  # noqa: S101
        return last.instance


class InstanceHandle:
    """One instance; `created` or `action` is the receipt of the command that returned this handle, if one did."""

    def __init__(
        self, instances: Instances, instance_id: str, *, created: Created | None = None, action: Action | None = None
    ) -> None:
        self._instances = instances
        self.id = instance_id
        self.created = created
        self.action = action

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def get(self) -> Instance:
        """The instance as it is now."""
        return self._instances.get(self.id)

    def wait_until_ready(
        self, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """As `client.instances.wait_until_ready`."""
        return self._instances.wait_until_ready(self.id, timeout=timeout, on_progress=on_progress)

    def wait_until_gone(
        self, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """As `client.instances.wait_until_gone`."""
        return self._instances.wait_until_gone(self.id, timeout=timeout, on_progress=on_progress)

    def wait_until_stopped(
        self, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """As `client.instances.wait_until_stopped`."""
        return self._instances.wait_until_stopped(self.id, timeout=timeout, on_progress=on_progress)

    def start(self, **terms: Unpack[StartTerms]) -> InstanceHandle:
        """As `client.instances.start`."""
        return self._instances.start(self.id, **terms)

    def restart(self, **terms: Unpack[StartTerms]) -> InstanceHandle:
        """As `client.instances.restart`."""
        return self._instances.restart(self.id, **terms)

    def stop(self) -> InstanceHandle:
        """As `client.instances.stop`."""
        return self._instances.stop(self.id)

    def delete(self) -> InstanceHandle:
        """As `client.instances.delete`."""
        return self._instances.delete(self.id)
