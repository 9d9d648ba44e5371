"""
The trial machine: created, watched, stopped, started, and deleted whatever happens.

The name is on disk before the create is sent. A create is sent once for each name, and no second machine is created
while one may exist. `run` deletes the machine before it returns or raises, also when it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import datetime
from typing import Final

from corral.cloud.novita.paging import PAGE_SIZE
from corral.cloud.trial_file import PendingTrial, TrialFile
from corral.domain.errors import CloudUnknownError
from corral.domain.verification import trial_plan
from corral.domain.verification.evidence import Look, PastTrial, ProviderAnswer, Stage, Trial
from corral.domain.verification.json_values import mapping, objects, text
from corral.domain.verification.trial_plan import TrialOffer
from corral.engine.verification.account import INSTANCE_PATH, LIST_PATH, AccountReading
from corral.engine.verification.calls import RecordedCalls
from corral.engine.verification.removal import POLL_SECONDS, SETTLE_SECONDS, OnProgress, Remover, left_text

SAMPLES_POLL_SECONDS: Final = 15.0
REFUSAL_SECONDS: Final = 20.0
"""How long the machine of a refused create is searched for. Longer finds one that the list shows late; the next run
finds that by its mark too."""
MOST_SECONDS: Final = trial_plan.TRIAL_SECONDS - trial_plan.REMOVE_SECONDS
"""After which the machine is deleted, whatever is left to measure and however long a call takes."""


class TrialRun:
    """One trial."""

    def __init__(
        self, calls: RecordedCalls, file: TrialFile, account: AccountReading, offer: TrialOffer, on_progress: OnProgress
    ) -> None:
        self._calls = calls
        self._clock = calls.clock
        self._file = file
        self._account = account
        self._offer = offer
        self._on_progress = on_progress
        self._remover = Remover(calls, file.mark(), on_progress)
        self._began = self._clock.monotonic()
        self._others = frozenset[str]()
        """The ids of the machines that were there before: a create that answers with one of them has not made it."""
        self.seen = Trial(name=file.new_name(), sent_at=self._clock.now())

    async def run(self) -> Trial:
        """
        Create, measure, delete; raises CloudUnknownError if a machine is not known to be gone.

        Raises CloudTransientError, and creates nothing, if the list cannot be read.
        """
        self._others = await self._remover.existing()
        try:
            async with asyncio.timeout(MOST_SECONDS):
                await self._created()
                if self.seen.provider_id is not None:
                    await self._measured(self.seen.provider_id)
        except TimeoutError:
            self._on_progress("the time of the trial is over")
        finally:
            await _to_its_end(self._removed())
        await self._refused()
        return self.seen

    async def _refused(self) -> None:
        """Ask for a product that does not exist, and see whether that creates a machine all the same."""
        name, sent_at = self._file.new_name(), self._clock.now()
        self._file.begin(PendingTrial(name=name, sent_at=sent_at))
        try:
            answer = await self._calls.post(f"{INSTANCE_PATH}/create", self._body(name, trial_plan.NO_PRODUCT))
            self.seen = replace(self.seen, refused=answer)
            seconds = REFUSAL_SECONDS if _is_refusal(answer) else SETTLE_SECONDS
            found = self._new_id(answer) or await self._remover.awaited(name, sent_at, seconds)
            created = "no machine" if found is None else "a machine all the same"
            self._on_progress(f"a create of a product that does not exist: {answer.problem}, and {created}")
            self.seen = replace(self.seen, left_by_refusal=found is not None)
        finally:
            await _to_its_end(self._removed())

    async def _created(self) -> None:
        """Create the machine; its id is None if there certainly is none."""
        name = self.seen.name
        self.seen = replace(self.seen, sent_at=self._clock.now())
        self._file.begin(PendingTrial(name=name, sent_at=self.seen.sent_at))
        self._on_progress(f"creating one {self._offer.product_name}")
        answer = await self._calls.post(f"{INSTANCE_PATH}/create", self._body(name, self._offer.product_id))
        self.seen = replace(self.seen, created=answer, provider_id=self._new_id(answer))
        if _is_refusal(answer):
            self._on_progress(f"the create was refused: {answer.problem}")
        elif self.seen.provider_id is None:
            self._on_progress(f"the create may have happened ({answer.problem})")
            self.seen = replace(self.seen, provider_id=await self._remover.awaited(name, self.seen.sent_at))

    def _new_id(self, answer: ProviderAnswer | None) -> str | None:
        """The id of the machine that a create made; None if *answer* has none, or that of another machine."""
        found = text(mapping(answer.content).get("id")) if answer is not None and answer.is_success else ""
        return found if found and found not in self._others else None

    async def _measured(self, provider_id: str) -> None:
        sent = self._clock.monotonic()
        await self._watch(Stage.BOOT, trial_plan.BOOT_SECONDS, self._has_booted)
        if self.seen.looks[-1].status != "running":
            return
        self.seen = replace(self.seen, started_twice=await self._act("start", provider_id))
        await self._account.read_instances(provider_id)
        await self._read_samples(provider_id, sent + trial_plan.BOOT_SECONDS + trial_plan.SAMPLES_SECONDS)
        stopped = await self._act("stop", provider_id)
        self.seen = replace(self.seen, stopped=stopped)
        if not await self._watch(Stage.STOP, trial_plan.STOP_SECONDS, lambda look: look.status == "exited"):
            return
        self.seen = replace(self.seen, started=await self._act("start", provider_id))
        if self.seen.started is not None and self.seen.started.is_success:
            await self._watch(Stage.START, trial_plan.START_SECONDS, lambda look: look.status == "running")

    def _has_booted(self, look: Look) -> bool:
        """Whether there is nothing more to see: it runs or failed, and is in the list or never will be in time."""
        error = mapping(mapping(look.got.content).get("statusError"))
        is_up = look.status == "running" or bool(text(error.get("state")) or text(error.get("message")))
        is_found = any(each.listed is not None for each in self.seen.looks) and any(
            each.by_name for each in self.seen.looks
        )
        return is_up and (is_found or look.seconds > SETTLE_SECONDS)

    async def _read_samples(self, provider_id: str, until: float) -> None:
        """Wait for the first measurements, which come late."""
        waiting_until = min(until, self._clock.monotonic() + trial_plan.SAMPLES_SECONDS)
        while not self._account.has_samples() and self._clock.monotonic() < waiting_until:
            self._on_progress("waiting for measurements")
            await self._clock.sleep(SAMPLES_POLL_SECONDS)
            await self._account.read_metrics(provider_id)

    async def _watch(self, stage: Stage, limit: float, is_over: Callable[[Look], bool]) -> bool:
        """Look at the machine until *is_over*; returns whether that was in time."""
        began, last = self._clock.monotonic(), ""
        while True:
            look = await self._look(stage, began)
            self.seen = replace(self.seen, looks=(*self.seen.looks, look))
            if look.status != last:
                self._on_progress(f"{look.status or 'not found'} {look.seconds:.0f} s after the {stage.value}")
                last = look.status
            if is_over(look):
                return True
            left = self._began + MOST_SECONDS - self._clock.monotonic()
            if look.seconds >= limit or left <= 0:
                self._on_progress(f"gave up waiting {look.seconds:.0f} s after the {stage.value}")
                return False
            await self._clock.sleep(POLL_SECONDS)

    async def _look(self, stage: Stage, began: float) -> Look:
        got = await self._calls.get(INSTANCE_PATH, {"instanceId": self.seen.provider_id or ""})
        look = Look(stage=stage, seconds=self._clock.monotonic() - began, got=got)
        known = self.seen.looks
        if stage is not Stage.BOOT:
            return look
        page = {"pageNum": str(self._account.first_page), "pageSize": str(PAGE_SIZE)}
        if not any(each.by_name for each in known):
            named = self._item(await self._calls.get(LIST_PATH, page | {"name": self.seen.name}))
            look = replace(look, by_name=named is not None, listed=named)
        if look.listed is None and not any(each.listed is not None for each in known):
            look = replace(look, listed=self._item(await self._calls.get(LIST_PATH, page)))
        return look

    def _item(self, answer: ProviderAnswer) -> dict[str, object] | None:
        items = objects(mapping(answer.content).get("instances"))
        return next((dict(item) for item in items if item.get("id") == self.seen.provider_id), None)

    async def _act(self, verb: str, provider_id: str) -> ProviderAnswer:
        answer = await self._calls.post(f"{INSTANCE_PATH}/{verb}", {"instanceId": provider_id})
        self._on_progress(f"{verb}: {'accepted' if answer.is_success else answer.problem}")
        return answer

    async def _removed(self) -> None:
        """Delete the machine, if there may be one, and forget it once it is gone."""
        pending = self._file.pending()
        if pending is None:
            return
        is_own = pending.name == self.seen.name
        answer = self.seen.created if is_own else self.seen.refused
        provider_id = self.seen.provider_id if is_own else self._new_id(answer)
        if provider_id is None and (answer is None or not _is_refusal(answer)):
            provider_id = await self._remover.awaited(pending.name, pending.sent_at)
        if provider_id is not None and provider_id not in self._others:
            await self._remove(provider_id, pending.sent_at)
        await self._remove_marked()
        self._file.end()

    async def _remove_marked(self) -> None:
        """Delete what else has the mark: the machine of a refused create, or of an earlier run."""
        while found := await self._remover.confirmed():
            for provider_id in found:
                self._on_progress("another machine of a trial is there")
                await self._remove(provider_id, self.seen.sent_at)

    async def _remove(self, provider_id: str, sent_at: datetime) -> None:
        self._on_progress("deleting the machine")
        found = await self._remover.remove(provider_id, created_at=sent_at)
        if provider_id == self.seen.provider_id:
            self.seen = replace(
                self.seen,
                deleted=found.deleted,
                gone_seconds=found.gone_seconds,
                listed_after=found.listed_after,
                looks=(*self.seen.looks, *found.looks),
            )
        if found.gone_seconds is not None and provider_id == self.seen.provider_id:
            self._file.remember(
                PastTrial(
                    provider_id=provider_id,
                    micro_usd=self._offer.micro_usd,
                    sent_at=self.seen.sent_at,
                    gone_at=self._clock.now(),
                )
            )
        if found.gone_seconds is None:
            raise CloudUnknownError(left_text(provider_id, self.seen.name))
        self._on_progress(f"the machine is gone {found.gone_seconds:.0f} s after the delete")

    def _body(self, name: str, product_id: str) -> dict[str, object]:
        return {
            "name": name,
            "productId": product_id,
            "gpuNum": 1,
            "rootfsSize": trial_plan.ROOTFS_GB,
            "imageUrl": trial_plan.IMAGE,
            "ports": f"{trial_plan.PORT}/http",
            "kind": "gpu",
            "billingMode": "onDemand",
        }


def _is_refusal(answer: ProviderAnswer) -> bool:
    """Whether *answer* to a create is clear: there is no machine, unless the provider lies."""
    return answer.status is not None and 400 <= answer.status < 500  # noqa: PLR2004  # the range HTTP gives


async def _to_its_end(work: Coroutine[object, object, None]) -> None:
    """Run *work* to its end also if this is cancelled meanwhile; then it is cancelled."""
    task, is_cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
    task.result()
    if is_cancelled:
        raise asyncio.CancelledError
