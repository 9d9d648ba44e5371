"""
Creating an instance at the provider, at most once.

The provider has no idempotency key. So each attempt gets a name of its own, recorded before the call; a clear refusal
leads to the next offer at once; and anything unclear leads to a look, never to a second call. The credentials of a
private registry exist only inside the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from corral.base.clock import Clock
from corral.base.telemetry import log
from corral.cloud.port import Cloud, Credentials
from corral.domain.errors import (
    CloudRefusedError,
    CloudShortageError,
    CloudTransientError,
    CloudUnknownError,
    IllegalTransitionError,
    NotFoundError,
    StaleError,
    StoreUnavailableError,
)
from corral.domain.events import starts_to_wait
from corral.domain.instance import Failure, Instance
from corral.domain.lifecycle.creation import (
    NOT_CARRIED_OUT,
    NOT_LISTED,
    held_up,
    in_doubt,
    intended,
    needs_fresh_offers,
    next_wait,
    not_created,
    retried_until,
    waited_too_long,
)
from corral.domain.lifecycle.decide import Policy
from corral.domain.lifecycle.refusals import Refusal, all_tried, nothing_left, refusal_of
from corral.domain.lifecycle.transitions import created, gave_up, with_provider_id
from corral.domain.observation.provider_names import ProviderName
from corral.domain.placement.catalog import Template
from corral.domain.placement.pricing import usd_text
from corral.domain.placement.rank import Candidate, Offer, Reason
from corral.domain.requests.create import placement_request
from corral.engine.queries.catalog import Catalog
from corral.engine.reconcile.create_gate import CreateGate
from corral.engine.reconcile.recorder import ReconcileContext, Recorder, Transition
from corral.engine.reconcile.send_check import SendCheck, order_of, send
from corral.engine.reconcile.unmade import UncreatedInstances
from corral.store.session.database import Database, driver_errors
from corral.store.tables import instances, operations

WHATEVER_THE_OFFER: Final = frozenset({"INSUFFICIENT_BALANCE", "AUTHENTICATION_FAILED", "INVALID_TEMPLATE"})
"""Refusals that no other offer would change."""
WAITING_MAX_AGE_SECONDS: Final = 20.0
"""
How old the catalog, and a refusal, may be that a waiting create goes by. Longer, and it misses what came into stock;
shorter, and many that wait use up the rate limit with reading it and with refused calls.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStep:
    """Brings wanted instances into the world."""

    cloud: Cloud
    database: Database
    catalog: Catalog
    gate: CreateGate
    unmade: UncreatedInstances
    recorder: Recorder
    clock: Clock
    installation: str
    policy: Policy

    async def create(self, hold: ReconcileContext, instance: Instance) -> Instance:
        """
        Try the offers in order until one is taken, none is left, or an answer is unclear; answers the instance then.

        Raises CloudTransientError, with nothing in doubt, when the provider cannot be asked now, and
        IllegalTransitionError if the instance has a machine.
        """
        if instance.provider_id is not None:
            raise IllegalTransitionError(f"{instance.id} has a machine: none is created for it")
        if (waits := await self._held_by_gate(hold, instance)) is not None:
            return waits
        refused: dict[Offer, Refusal] = {}
        while True:
            max_age = WAITING_MAX_AGE_SECONDS if needs_fresh_offers(instance) else None
            try:
                template = await self.catalog.template(instance.request.template_id)
                ranking = await self.catalog.plan(placement_request(instance.request), max_age_seconds=max_age)
                left = [c for c in ranking.candidates if c.offer not in refused]
                instance = replace(instance, tried=all_tried(ranking, refused.values()))
                if not left:
                    return await self._give_up(hold, instance, nothing_left(instance.tried, [*refused.values()]))
                candidate, refusal = await self._priced(instance, left[0])
            except (NotFoundError, CloudRefusedError) as error:
                return await self._give_up(hold, instance, Failure(code=error.code, message=error.message))
            except CloudTransientError as error:
                await self._hold_up(hold, instance, error)
                raise
            if refusal is None:
                instance, refusal = await self._attempt(hold, instance, candidate, template)
            if refusal is None:
                return instance
            refused[candidate.offer] = refusal

    async def _held_by_gate(self, hold: ReconcileContext, instance: Instance) -> Instance | None:
        """None if a create may be sent; else the instance, which says why not. Raises if that should be known soon."""
        try:
            await self.gate.check(hold.connection, hold.server, instance.id)
        except CloudTransientError as error:
            why = Failure(code=NOT_LISTED, message=error.message)
            if self.gate.is_settling(instance.id):
                return await self._give_up(hold, instance, why, after=error.retry_after_seconds)
            if not self.gate.is_slow:
                raise
            # A machine that this finds is recorded; what follows is stale then, and the next pass has the machine.
            if not self.gate.is_stuck or not await self.unmade.is_unmade(instance):
                return await self._give_up(hold, instance, why)
        return None

    async def _priced(self, instance: Instance, candidate: Candidate) -> tuple[Candidate, Refusal | None]:
        """The candidate at its present price, and why it is refused then; only a request with a limit needs that."""
        limit = instance.request.max_micro_usd_per_gpu
        if limit is None:
            return candidate, None
        price = await self.catalog.current_price(candidate.offer)
        if not price:
            return candidate, refusal_of(candidate, f"{candidate.offer.product_id} is no longer for sale", short=True)
        candidate = replace(candidate, micro_usd_per_gpu=price, micro_usd=price * instance.request.gpu_num)
        if price <= limit:
            return candidate, None
        dear = f"{candidate.offer.product_id} now costs {usd_text(price)} per GPU-hour in {candidate.region}"
        return candidate, refusal_of(candidate, f"{dear}, more than the {usd_text(limit)} allowed", short=True)

    async def _attempt(
        self,
        hold: ReconcileContext,
        instance: Instance,
        candidate: Candidate,
        template: Template,
        credentials: Credentials | None = None,
    ) -> tuple[Instance, Refusal | None]:
        """One create call; answers the instance, and why the offer was refused if the next is to be tried."""
        # The time starts before the intent is written: the process may be paused while that is committed.
        check = SendCheck(
            self.clock, self.policy.longest_create, lambda: instances.is_unchanged(hold.connection, instance)
        )
        instance = await self._intend(hold, instance, candidate)
        mark = ProviderName(installation=self.installation, instance_id=instance.id, attempt=instance.create.number)
        order = order_of(mark, instance.request, candidate, template, credentials)
        try:
            provider_id = await send(self.cloud, order, check)
        except StaleError:
            await self._clear(hold, instance, "not sent: the instance was changed meanwhile")
            raise
        except asyncio.CancelledError:  # this worker stops: another can go on at once if nothing was sent
            if not check.passed:
                with suppress(StaleError, StoreUnavailableError), driver_errors():
                    await self._clear(hold, instance, "not sent: the worker was stopped")
            raise
        except CloudShortageError as error:
            instance = await self._clear(hold, instance, "no stock")
            await self.catalog.note_shortage(candidate.offer, error.message, gpu_num=instance.request.gpu_num)
            return instance, refusal_of(candidate, Reason.OUT_OF_STOCK, short=True)
        except CloudRefusedError as error:
            instance = await self._clear(hold, instance, error.message)
            if error.code in WHATEVER_THE_OFFER:
                return await self._give_up(hold, instance, Failure(code=error.code, message=error.message)), None
            if error.code == "REGISTRY_AUTH_NOT_FOUND" and template.image_auth_id is not None and credentials is None:
                return await self._with_login(hold, instance, candidate, template, template.image_auth_id)
            return instance, refusal_of(candidate, error.message, short=False)
        except CloudTransientError as error:
            await self._hold_up(hold, instance, error, was_called=True)
            raise
        except CloudUnknownError as error:
            log.warning(
                "instance.create_in_doubt", instance_id=instance.id, attempt=instance.create.number, why=str(error)
            )
            return await self._record(hold, instance, in_doubt, error.message), None
        return await self._record_id(hold, instance, provider_id), None

    async def _with_login(
        self, hold: ReconcileContext, instance: Instance, candidate: Candidate, template: Template, auth_id: str
    ) -> tuple[Instance, Refusal | None]:
        """The provider refused the id of the registry login: send the login itself, fetched for this one call."""
        try:
            credentials = await self.catalog.credentials(auth_id)
        except (NotFoundError, CloudRefusedError) as error:
            return await self._give_up(hold, instance, Failure(code=error.code, message=error.message)), None
        except CloudTransientError as error:
            await self._hold_up(hold, instance, error)
            raise
        return await self._attempt(hold, instance, candidate, template, credentials)

    async def _intend(self, hold: ReconcileContext, instance: Instance, candidate: Candidate) -> Instance:
        """Record what is about to be asked."""
        now = self.clock.now()
        intent = Transition(intended(instance, candidate, now), "about to create")
        return await self.recorder.write(hold, instance, intent, now=now, requeue_after=self.policy.settle)

    async def _clear(self, hold: ReconcileContext, instance: Instance, because: str) -> Instance:
        """Record that the call certainly left nothing behind."""
        return await self._record(hold, instance, lambda current, _: not_created(current), because)

    async def _hold_up(
        self, hold: ReconcileContext, instance: Instance, error: CloudTransientError, *, was_called: bool = False
    ) -> None:
        """
        Record why nothing could be created for now, unless that is recorded already.

        *was_called*: this ends a create call. Otherwise an earlier call may be in doubt, which must stay recorded.
        """

        def change(current: Instance, _: datetime) -> Instance:
            return held_up(not_created(current) if was_called else current, error.message)

        waits = change(instance, self.clock.now())
        if waits == instance:
            return
        if starts_to_wait(instance, waits):
            log.info(
                "instance.waiting",
                code=NOT_CARRIED_OUT,
                why=error.message,
                tries=0 if instance.waiting is None else instance.waiting.tries,
            )
        await self._record(hold, instance, change, error.message)

    async def _record(
        self, hold: ReconcileContext, instance: Instance, change: Callable[[Instance, datetime], Instance], because: str
    ) -> Instance:
        """
        Record how the call of *instance* ended.

        Raises StaleError when another process changed it meanwhile; if the record is still about the same call, its end
        is recorded all the same, so that the next pass need not wait for it.
        """
        now = self.clock.now()
        try:
            return await self.recorder.write(
                hold, instance, Transition(change(instance, now), because), now=now, requeue_after=self.policy.settle
            )
        except StaleError:
            current = await self._reread(hold, instance)
            if current is not None and current.create_in_doubt and current.create.number == instance.create.number:
                await self.recorder.write(hold, current, Transition(change(current, now), because), now=now)
            raise

    async def _record_id(self, hold: ReconcileContext, instance: Instance, provider_id: str) -> Instance:
        """
        Record the id that the provider returned, also if another process changed the instance meanwhile.

        Raises StaleError when this pass must end: the record has another id by now, or the connection and with it the
        lock was lost. The id is then written through a new connection.
        """
        try:
            with driver_errors():
                return await self._write_id(hold, instance, provider_id)
        except StoreUnavailableError as lost:
            try:
                async with self.database.connection() as connection:
                    await self._write_id(replace(hold, connection=connection), instance, provider_id)
            except StoreUnavailableError:
                log.error("instance.id_unrecorded", instance_id=instance.id, provider_id=provider_id)
                raise
            raise StaleError(f"the lock of {instance.id} was lost") from lost

    async def _write_id(self, hold: ReconcileContext, instance: Instance, provider_id: str) -> Instance:
        current = instance
        while True:
            now = self.clock.now()
            step = Transition(created(current, provider_id, now), "created")
            until_deadline = None if current.deadline_at is None else current.deadline_at - now
            try:
                return await self.recorder.write(hold, current, step, now=now, requeue_after=until_deadline)
            except IllegalTransitionError as error:
                # A mistake in the lifecycle must not lose a machine: its id is recorded, and the phase stays.
                log.error("instance.illegal_transition", instance_id=instance.id, why=error.message)
                only_id = Transition(with_provider_id(current, provider_id, now), "created")
                return await self.recorder.write(hold, current, only_id, now=now)
            except StaleError:
                reread = await self._reread(hold, instance)
                if reread is not None and reread.provider_id == provider_id:
                    return reread
                if reread is None or reread.provider_id is not None:
                    log.error("instance.id_unrecorded", instance_id=instance.id, provider_id=provider_id)
                    raise
                current = reread

    async def _reread(self, hold: ReconcileContext, instance: Instance) -> Instance | None:
        """The instance as it is recorded now; its operation is taken over by *hold*."""
        current = await instances.load(hold.connection, instance.id)
        if current is not None:
            hold.operation = await operations.load(hold.connection, current.operation_id)
        return current

    async def _give_up(
        self, hold: ReconcileContext, instance: Instance, obstacle: Failure, after: float | None = None
    ) -> Instance:
        """Record why nothing was created: the create waits and is tried again if that may pass, else it fails."""
        now = self.clock.now()
        until = retried_until(instance, obstacle)
        if until is None or now >= until:
            return await self._fail(hold, instance, waited_too_long(obstacle))
        wait = next_wait(instance, obstacle, now, pause_seconds=after)
        log.info("instance.waiting", code=obstacle.code, why=obstacle.message, tries=wait.tries)
        waits = Transition(replace(instance, waiting=wait), obstacle.message)
        pause = None if wait.retry_at is None else wait.retry_at - now
        return await self.recorder.write(hold, instance, waits, now=now, requeue_after=pause)

    async def _fail(self, hold: ReconcileContext, instance: Instance, failure: Failure) -> Instance:
        now = self.clock.now()
        failed = Transition(gave_up(instance, failure, now), failure.message)
        return await self.recorder.write(hold, instance, failed, now=now)
