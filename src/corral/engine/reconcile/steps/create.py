"""
Creating an instance at the provider, at most once.

The provider has no idempotency key. So each attempt gets a name of its own, recorded before the call. A clear refusal
leads to the next offer at once; after anything unclear the name is searched for, and no second call is sent. The
credentials of a private registry and the secrets of the request are in memory only during the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from corral.base.log import log
from corral.cloud.port import Credentials, ProviderCreate
from corral.domain.budgets.admission import refused as over_budget
from corral.domain.errors import (
    CallerError,
    CloudRefusedError,
    CloudShortageError,
    CloudTransientError,
    CloudUnknownError,
    Failure,
    IllegalTransitionError,
    NotFoundError,
    SettingsError,
    StaleError,
    StoreUnavailableError,
)
from corral.domain.instance import Instance
from corral.domain.lifecycle.creation import (
    NOT_LISTED,
    OVER_BUDGET,
    Refusal,
    all_tried,
    needs_fresh_offers,
    nothing_left,
    placement_of,
    refusal_of,
)
from corral.domain.observation.provider_names import ProviderName
from corral.domain.placement.catalog import EnvironmentVariable, Template
from corral.domain.placement.pricing import usd_text
from corral.domain.placement.rank import Candidate, Offer, Reason
from corral.domain.records import replace
from corral.engine.batcher import Batcher
from corral.engine.budgets.reservations import BudgetReservations
from corral.engine.queries.catalog import Catalog
from corral.engine.queries.requested import resolve
from corral.engine.reconcile.create_gate import CreateGate
from corral.engine.reconcile.outcome import Outcome
from corral.engine.reconcile.recorder import ReconcileContext, Recorder
from corral.engine.reconcile.send_check import SendCheck, create_call, send
from corral.engine.reconcile.steps.create_outcome import CreateOutcomes
from corral.engine.reconcile.steps.create_secrets import CreateSecrets
from corral.engine.reconcile.uncreated import UncreatedInstances
from corral.engine.runtime import Runtime
from corral.store.session.database import driver_errors
from corral.store.tables import instances

FOR_ANY_OFFER: Final = frozenset({"INSUFFICIENT_BALANCE", "AUTHENTICATION_FAILED", "INVALID_TEMPLATE"})
"""Refusals that no other offer would change."""
WAITING_MAX_AGE_SECONDS: Final = 20.0
"""
How old the catalog, and a refusal, may be that a waiting create goes by. Longer, and it misses what came into stock;
shorter, and many that wait use up the rate limit with reading it and with refused calls.
"""


Secrets = tuple[EnvironmentVariable, ...]


@dataclass(kw_only=True)
class CreateStep:
    """Sends create calls; `create_outcome.py` records them."""

    catalog: Catalog
    gate: CreateGate
    unmade: UncreatedInstances
    runtime: Runtime
    recorder: Recorder
    budgets: BudgetReservations
    _outcomes: CreateOutcomes = field(init=False)
    _secrets: CreateSecrets = field(init=False)
    _unchanged: Batcher[Instance, bool] = field(init=False)

    def __post_init__(self) -> None:
        """Share the recorder and the clock."""
        self._outcomes = CreateOutcomes(runtime=self.runtime, recorder=self.recorder)
        self._secrets = CreateSecrets(database=self.runtime.database, key_file=self.runtime.secret_key)
        self._unchanged = Batcher(self._are_unchanged)

    async def create(self, context: ReconcileContext, instance: Instance) -> Outcome:
        """
        Try the offers in order until one is taken, none is left, or an answer is unclear.

        Raises CloudTransientError, with nothing in doubt, when the provider cannot be asked now, and
        IllegalTransitionError if the instance has a machine.
        """
        if instance.provider_id is not None:
            raise IllegalTransitionError(f"{instance.id} has a machine: none is created for it")
        waits = await self._held_by_gate(context, instance)
        return Outcome(instance=waits or await self._try_offers(context, instance))

    async def _try_offers(self, context: ReconcileContext, instance: Instance) -> Instance:
        refused: dict[Offer, Refusal] = {}
        while True:
            max_age = WAITING_MAX_AGE_SECONDS if needs_fresh_offers(instance) else None
            try:
                template, wanted = await resolve(self.catalog, instance.request)
                ranking = await self.catalog.plan(wanted, max_age_seconds=max_age)
                left = [c for c in ranking.candidates if c.offer not in refused]
                instance = replace(instance, tried=all_tried(ranking, refused.values()))
                if not left:
                    return await self._outcomes.give_up(
                        context, instance, nothing_left(instance.tried, [*refused.values()])
                    )
                candidate, refusal = await self._priced(instance, left[0])
                if refusal is None:
                    instance, refusal = await self._reserved(instance, candidate)
                secrets = () if refusal else await self._secrets.open(instance)
            except (CallerError, CloudRefusedError, SettingsError) as error:
                return await self._outcomes.give_up(context, instance, Failure(code=error.code, message=error.message))
            except CloudTransientError as error:
                await self._outcomes.hold_up(context, instance, error)
                raise
            if refusal is None:
                instance, refusal = await self._attempt(context, instance, candidate, template, secrets)
            if refusal is None:
                return instance
            refused[candidate.offer] = refusal

    async def _held_by_gate(self, context: ReconcileContext, instance: Instance) -> Instance | None:
        """
        Return None if a create may be sent, else the instance with the reason why not.

        Raises CloudTransientError if that may change soon.
        """
        if self.gate.is_open(context.server):
            return None
        try:
            async with self.runtime.database.connection() as connection:
                await self.gate.check(connection, context.server, instance.id)
        except CloudTransientError as error:
            why = Failure(code=NOT_LISTED, message=error.message)
            if self.gate.is_settling(instance.id):
                return await self._outcomes.give_up(context, instance, why, after=error.retry_after_seconds)
            if not self.gate.is_slow:
                raise
            # A machine that this finds is recorded; what follows is stale then, and the next reconcile has the machine.
            if not self.gate.is_stuck or not await self.unmade.has_no_machine(instance):
                return await self._outcomes.give_up(context, instance, why)
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

    async def _reserved(self, instance: Instance, candidate: Candidate) -> tuple[Instance, Refusal | None]:
        """The instance with as much reserved as *candidate* needs, and why it is refused if a budget refuses that."""
        held, now = instance.reservation, self.runtime.clock.now()
        wanted = self.budgets.amount(instance.request, placement_of(candidate), now)
        if held is None:  # recorded before there were reservations
            return instance, None
        if wanted.micro_usd > held.micro_usd:
            why = await self.budgets.raise_to(instance, wanted, now)
            if why is not None:
                refusal = refusal_of(candidate, over_budget(why).message, short=True, code=OVER_BUDGET)
                return instance, refusal
        return replace(instance, reservation=replace(held, micro_usd=wanted.micro_usd)), None

    async def _attempt(
        self,
        context: ReconcileContext,
        instance: Instance,
        candidate: Candidate,
        template: Template,
        secrets: Secrets,
        *,
        credentials: Credentials | None = None,
    ) -> tuple[Instance, Refusal | None]:
        """Send one create call; returns the instance, and why the offer was refused if the next is to be tried."""
        # The time starts before the intent is written: the process may be paused while that is committed.
        check = SendCheck(
            self.runtime.clock,
            self.runtime.policy.longest_create,
            lambda: self._unchanged.add(instance),
        )
        instance = await self._outcomes.intend(context, instance, candidate)
        origin = ProviderName(
            installation=self.runtime.installation, instance_id=instance.id, attempt=instance.create.number
        )
        order = create_call(origin, instance.request, candidate, template, credentials=credentials, secrets=secrets)
        try:
            provider_id = await send(self.runtime.cloud, order, check)
        except StaleError:
            await self._outcomes.clear(context, instance, "not sent: the instance was changed meanwhile")
            raise
        except asyncio.CancelledError:  # this worker stops: another can continue at once if nothing was sent
            if not check.passed:
                with suppress(StaleError, StoreUnavailableError), driver_errors():
                    await self._outcomes.clear(context, instance, "not sent: the worker was stopped")
            raise
        except CloudShortageError as error:
            instance = await self._outcomes.clear(context, instance, "no stock")
            await self._note_shortage(order, candidate, error)
            return instance, refusal_of(candidate, Reason.OUT_OF_STOCK, short=True)
        except CloudRefusedError as error:
            instance = await self._outcomes.clear(context, instance, error.message)
            if error.code in FOR_ANY_OFFER:
                return await self._outcomes.give_up(
                    context, instance, Failure(code=error.code, message=error.message)
                ), None
            if error.code == "REGISTRY_AUTH_NOT_FOUND" and template.image_auth_id and credentials is None:
                return await self._with_login(context, instance, candidate, template, secrets)
            return instance, refusal_of(candidate, error.message, short=False)
        except CloudTransientError as error:
            await self._outcomes.hold_up(context, instance, error, was_called=True)
            raise
        except CloudUnknownError as error:
            log.warning(
                "instance.create_in_doubt", instance_id=instance.id, attempt=instance.create.number, why=str(error)
            )
            return await self._outcomes.doubt(context, instance, error.message), None
        return await self._outcomes.record_id(context, instance, provider_id), None

    async def _note_shortage(self, order: ProviderCreate, candidate: Candidate, error: CloudShortageError) -> None:
        """Keep the offer out of other choices, unless it may be the volumes of *order* that cannot be had there."""
        if not order.volumes:
            await self.catalog.note_shortage(candidate.offer, error.message, gpu_num=order.gpu_num)

    async def _are_unchanged(self, read: Sequence[Instance]) -> list[bool]:
        """One query for all creates that are about to be sent."""
        async with self.runtime.database.connection() as connection:
            return await instances.are_unchanged(connection, read)

    async def _with_login(
        self, context: ReconcileContext, instance: Instance, candidate: Candidate, template: Template, secrets: Secrets
    ) -> tuple[Instance, Refusal | None]:
        """The provider refused the id of the registry login: send the login itself, fetched for this one call."""
        try:
            credentials = await self.catalog.credentials(template.image_auth_id or "")
        except (NotFoundError, CloudRefusedError) as error:
            return await self._outcomes.give_up(
                context, instance, Failure(code=error.code, message=error.message)
            ), None
        except CloudTransientError as error:
            await self._outcomes.hold_up(context, instance, error)
            raise
        return await self._attempt(context, instance, candidate, template, secrets, credentials=credentials)
