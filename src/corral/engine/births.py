"""
Creating an instance at the provider, at most once.

The provider has no idempotency key. So each attempt gets a name of its own, recorded before the call; a clear refusal
leads to the next offer at once; and anything unclear leads to a look, never to a second call. The credentials of a
private registry exist only inside the call.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from corral.clock import Clock
from corral.cloud.port import Cloud, CreateOrder, Credentials
from corral.domain.catalog import Template
from corral.domain.decide import Policy
from corral.domain.errors import (
    CloudRefusedError,
    CloudShortageError,
    CloudTransientError,
    CloudUnknownError,
    NotFoundError,
)
from corral.domain.instance import Failure, Instance, Placement, ProviderId, Tried
from corral.domain.lifecycle import Phase
from corral.domain.marks import Mark, provider_name
from corral.domain.order_rules import wish_of
from corral.domain.placement import Candidate, Reason, Rejection
from corral.engine.catalog import Catalogue
from corral.engine.record import Hold, Recorder, Step
from corral.telemetry import log

LONGEST_CREATE_SECONDS: Final = 45.0
"""
How long one create call may take with all its waiting for permits and its repetitions. It must stay below the settle
time: a worker that lost its lock with its connection must not send a create that another has meanwhile given up.
"""
FINAL_REFUSALS: Final = frozenset({"INSUFFICIENT_BALANCE", "AUTHENTICATION_FAILED", "INVALID_TEMPLATE"})
"""Refusals that no other offer would change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Births:
    """Brings wanted instances into the world."""

    cloud: Cloud
    catalogue: Catalogue
    recorder: Recorder
    clock: Clock
    installation: str
    policy: Policy

    async def create(self, hold: Hold, instance: Instance) -> Instance:
        """
        Try the offers in order until one is taken, none is left, or an answer is unclear; answers the instance then.

        Raises CloudTransientError, with nothing in doubt, when the provider cannot be asked now.
        """
        refused: list[Tried] = []
        while True:
            try:
                template = await self.catalogue.template(instance.order.template_id)
                ranking = await self.catalogue.plan(wish_of(instance.order))
            except (NotFoundError, CloudRefusedError) as error:
                return await self._fail(hold, instance, Failure(code=error.code, message=error.message))
            passed_over = {(t.region, t.product_id) for t in refused}
            left = [c for c in ranking.candidates if (c.region, c.offer.product_id) not in passed_over]
            tried = (*(_tried(r) for r in ranking.rejected), *refused)
            if not left:
                return await self._fail(hold, replace(instance, tried=tried), _nothing_left(tried))
            instance, refusal = await self._attempt(hold, replace(instance, tried=tried), left[0], template)
            if refusal is None:
                return instance
            refused.append(refusal)

    async def _attempt(
        self,
        hold: Hold,
        instance: Instance,
        candidate: Candidate,
        template: Template,
        credentials: Credentials | None = None,
    ) -> tuple[Instance, Tried | None]:
        """One create call; answers the instance, and why the offer was refused if the next is to be tried."""
        instance = await self._intend(hold, instance, candidate)
        order = self._order(instance, candidate, template, credentials)
        try:
            async with asyncio.timeout(LONGEST_CREATE_SECONDS):
                provider_id = await self.cloud.create(order)
        except CloudShortageError as error:
            await self.catalogue.note_shortage(candidate.offer, error.message)
            return await self._clear(hold, instance, "no stock"), _refused(candidate, Reason.OUT_OF_STOCK)
        except CloudRefusedError as error:
            instance = await self._clear(hold, instance, error.message)
            if error.code in FINAL_REFUSALS:
                return await self._fail(hold, instance, Failure(code=error.code, message=error.message)), None
            if error.code == "REGISTRY_AUTH_NOT_FOUND" and template.image_auth_id is not None and credentials is None:
                return await self._with_login(hold, instance, candidate, template, template.image_auth_id)
            return instance, _refused(candidate, error.message)
        except CloudTransientError as error:
            await self._clear(hold, instance, error.message)
            raise
        except (CloudUnknownError, TimeoutError) as error:
            log.warning("instance.create_in_doubt", instance_id=instance.id, attempt=instance.attempt, why=str(error))
            return instance, None
        return await self._born(hold, instance, provider_id), None

    async def _with_login(
        self, hold: Hold, instance: Instance, candidate: Candidate, template: Template, auth_id: str
    ) -> tuple[Instance, Tried | None]:
        """The provider refused the id of the registry login: send the login itself, fetched for this one call."""
        try:
            credentials = await self.catalogue.credentials(auth_id)
        except NotFoundError as error:
            failure = Failure(code=error.code, message=error.message)
            return await self._fail(hold, instance, failure), None
        return await self._attempt(hold, instance, candidate, template, credentials)

    async def _intend(self, hold: Hold, instance: Instance, candidate: Candidate) -> Instance:
        """Record what is about to be asked, under a name nothing was ever asked for."""
        now = self.clock.now()
        intent = replace(
            instance,
            attempt=instance.attempt + 1,
            create_sent_at=now,
            doubted_at=None,
            listings_since_sent=0,
            placement=Placement(
                region=candidate.region,
                cluster_id=candidate.offer.cluster_id,
                product_id=candidate.offer.product_id,
                billing_mode=candidate.offer.billing_mode,
                micro_usd=candidate.micro_usd,
            ),
        )
        return await self.recorder.write(
            hold, instance, Step(intent, "about to create"), now=now, look_again=self.policy.settle
        )

    async def _clear(self, hold: Hold, instance: Instance, because: str) -> Instance:
        """Record that the call certainly left nothing behind."""
        now = self.clock.now()
        cleared = replace(instance, create_sent_at=None)
        return await self.recorder.write(hold, instance, Step(cleared, because), now=now, look_again=self.policy.settle)

    async def _born(self, hold: Hold, instance: Instance, provider_id: str) -> Instance:
        now = self.clock.now()
        born = replace(
            instance,
            provider_id=ProviderId(provider_id),
            create_sent_at=None,
            phase=Phase.STARTING,
            phase_since=now,
            started_at=now,
        )
        until_deadline = None if born.deadline_at is None else born.deadline_at - now
        return await self.recorder.write(hold, instance, Step(born, "created"), now=now, look_again=until_deadline)

    async def _fail(self, hold: Hold, instance: Instance, failure: Failure) -> Instance:
        now = self.clock.now()
        failed = replace(instance, phase=Phase.FAILED, phase_since=now, failure=failure)
        return await self.recorder.write(hold, instance, Step(failed, failure.message), now=now)

    def _order(
        self, instance: Instance, candidate: Candidate, template: Template, credentials: Credentials | None
    ) -> CreateOrder:
        mark = Mark(installation=self.installation, instance_id=instance.id, attempt=instance.attempt)
        return CreateOrder(
            name=provider_name(mark),
            product_id=candidate.offer.product_id,
            cluster_id=candidate.offer.cluster_id,
            gpu_num=instance.order.gpu_num,
            rootfs_gb=instance.order.rootfs_gb,
            billing_mode=candidate.offer.billing_mode,
            template=template,
            credentials=credentials,
        )


def _tried(rejection: Rejection) -> Tried:
    return Tried(
        region=rejection.region,
        product_id=rejection.product_id,
        micro_usd_per_gpu=rejection.micro_usd_per_gpu,
        reason=rejection.because,
    )


def _refused(candidate: Candidate, reason: str) -> Tried:
    return Tried(
        region=candidate.region,
        product_id=candidate.offer.product_id,
        micro_usd_per_gpu=candidate.micro_usd_per_gpu,
        reason=reason,
    )


def _nothing_left(tried: tuple[Tried, ...]) -> Failure:
    short = [t for t in tried if t.product_id is not None]
    if short:
        places = ", ".join(dict.fromkeys(t.region for t in short))
        return Failure(
            code="RESOURCE_CONSTRAINTS", message=f"no machine of this kind is left in {places}; try again later"
        )
    return Failure(code="NO_OPTIMAL_PRODUCT_ANY_REGION", message="no region offers this product at this price")
