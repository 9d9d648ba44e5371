"""
What `corral verify` does: read an account, judge it, and try one machine.

Uses the service's settings, but neither the service nor its database. Without NOVITA_API_KEY the simulator is verified.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from corral import __version__
from corral.base.clock import Clock
from corral.base.settings.settings import Settings
from corral.cloud.novita.http import HttpExchange
from corral.cloud.novita.raw import RawCalls
from corral.cloud.simulated import opened_provider
from corral.cloud.trial_file import TrialFile
from corral.domain.errors import CloudRefusedError, CloudTransientError, CloudUnknownError, GoalRefusedError
from corral.domain.lifecycle.policy import Policy
from corral.domain.placement.catalog import region_order
from corral.domain.verification.evidence import AccountProbe, Evidence, Expected, ProviderAnswer
from corral.domain.verification.judge import Agreement, judged
from corral.domain.verification.redaction import private_texts
from corral.domain.verification.table import CHECKS
from corral.domain.verification.trial_plan import TRIAL_SECONDS, TrialOffer, cheapest
from corral.engine.verification.account import AccountReading
from corral.engine.verification.calls import RecordedCalls
from corral.engine.verification.removal import OnProgress, Remover, left_text
from corral.engine.verification.trial import TrialRun
from corral.views.verification import VerificationReport, verification_view

WRONG_KEY: Final = SecretStr("corral-verify-wrong-key")
"""Sent once, to see how a key is refused."""
PRICE_CHECKS: Final = frozenset({"catalog.products", "catalog.price_unit"})
"""Where these differ, what a trial costs is not known, and none is made."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DENIED: Final = frozenset({401, 403})
Result = TypeVar("Result")
Confirm = Callable[[TrialOffer], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    calls: RecordedCalls
    wrong_key: RawCalls
    key: str
    name: str


async def verify(
    settings: Settings, clock: Clock, *, spend_usd: float | None, confirm: Confirm, on_progress: OnProgress
) -> dict[str, object]:
    """
    The report; with *spend_usd* also on a trial machine that costs no more, once *confirm* has agreed to it.

    Raises CloudError if the provider cannot be called at all, and CloudUnknownError if a machine may be left.
    """
    file = TrialFile(settings.store.data_dir)
    async with AsyncExitStack() as stack:
        stack.callback(file.release)
        provider = await stack.enter_async_context(_opened(settings, clock))
        account = AccountReading(provider.calls)
        _check_access(await account.read_first())
        await _remove_left(provider.calls, file, on_progress)
        on_progress("reading the catalog")
        await account.read_catalog()
        await account.read_refusals(provider.wrong_key)
        trial, offer = None, None
        if spend_usd is not None:
            offer = _affordable(_evidence(settings, provider.calls, account), account, spend_usd)
            if not file.claim():
                raise GoalRefusedError("another `corral verify --spend` runs with this data directory")
            if not confirm(offer):
                raise GoalRefusedError("nothing was created")
            running = TrialRun(provider.calls, file, account, offer, on_progress).run()
            trial = await _until_signal(running, on_progress)
        if AccountProbe.LIST not in account.answers:
            on_progress("reading the instances")
            await account.read_instances()
        past = file.past() if file.exists else None
        await account.read_bill(None if past is None else past.sent_at)
        evidence = replace(_evidence(settings, provider.calls, account), trial=trial, past_trial=past)
        report = VerificationReport(
            version=__version__,
            at=clock.now(),
            provider=provider.name,
            calls=len(evidence.every),
            findings=judged(CHECKS, evidence),
            offer=offer,
        )
        return verification_view(report, private_texts(evidence, api_key=provider.key))


async def cleanup(
    settings: Settings, clock: Clock, *, mark: str | None, on_progress: OnProgress
) -> tuple[int, list[str]]:
    """Delete the trial machines of this data directory, or of *mark*; returns how many, and the marks of others."""
    file = TrialFile(settings.store.data_dir)
    async with _opened(settings, clock) as provider:
        try:
            if mark is None:
                removed = await _remove_left(provider.calls, file, on_progress, is_required=True)
            else:
                removed = await _remove_all(Remover(provider.calls, mark, on_progress), on_progress)
            own = mark or (file.mark() if file.exists else "")
            others = await Remover(provider.calls, own, on_progress).other_marks()
            return removed, sorted(others)
        finally:
            file.release()


async def _until_signal(work: Coroutine[object, object, Result], on_progress: OnProgress) -> Result:
    """
    Run *work*; the first signal to end cancels it, so that it deletes what it created.

    Later signals change nothing: a person who presses Ctrl-C twice must not leave a machine behind.
    """
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
    signalled = asyncio.Event()

    def received() -> None:
        on_progress("interrupted: what was created is deleted first, please wait")
        if not signalled.is_set():
            signalled.set()
            task.cancel()

    for name in _SIGNALS:
        loop.add_signal_handler(name, received)
    try:
        return await task
    finally:
        for name in _SIGNALS:
            loop.remove_signal_handler(name)


async def _remove_left(
    calls: RecordedCalls, file: TrialFile, on_progress: OnProgress, *, is_required: bool = False
) -> int:
    """Delete what an earlier trial left behind; nothing while another process runs one, unless that *is_required*."""
    if not file.exists:
        return 0
    if not file.claim():
        if is_required:
            raise GoalRefusedError("a `corral verify --spend` runs with this data directory; it deletes its machine")
        return 0
    remover, pending = Remover(calls, file.mark(), on_progress), file.pending()
    if pending is not None:
        on_progress("an earlier trial did not end")
        await remover.awaited(pending.name, pending.sent_at)
    removed = await _remove_all(remover, on_progress)
    file.end()
    return removed


async def _remove_all(remover: Remover, on_progress: OnProgress) -> int:
    removed = 0
    while found := await remover.confirmed():
        for provider_id, name in found.items():
            on_progress(f"deleting {name}, which a trial left behind")
            if (await remover.remove(provider_id, created_at=None)).gone_seconds is None:
                raise CloudUnknownError(left_text(provider_id, name))
            removed += 1
    return removed


def _affordable(evidence: Evidence, account: AccountReading, spend_usd: float) -> TrialOffer:
    """The offer that a trial takes; raises GoalRefusedError if there is none, or it may cost more than *spend_usd*."""
    prices = judged([check for check in CHECKS if check.id in PRICE_CHECKS], evidence)
    wrong = [finding for finding in prices if finding.agreement is not Agreement.HOLDS]
    if wrong:
        raise GoalRefusedError(f"no machine is created, because its price is not certain: {wrong[0].seen}")
    offer = cheapest(account.products())
    if offer is None:
        raise GoalRefusedError("no machine is created, because no product is in stock on demand")
    most = offer.most_micro_usd / 1_000_000
    if not most <= spend_usd:  # also if that is no number
        raise GoalRefusedError(
            f"no machine is created: {TRIAL_SECONDS / 60:.0f} minutes of the cheapest, {offer.product_name}, "
            f"cost up to ${most:.4f}, and --spend allows ${spend_usd:.4f}"
        )
    return offer


def _evidence(settings: Settings, calls: RecordedCalls, account: AccountReading) -> Evidence:
    regions = region_order(settings.instances.default_region, settings.instances.regions)
    expected = Expected(regions=regions, settle=Policy().settle)
    return Evidence(answers=dict(account.answers), every=tuple(calls.answers), expected=expected)


def _check_access(answer: ProviderAnswer) -> None:
    if answer.status in _DENIED and answer.is_json:
        raise CloudRefusedError(
            f"the provider does not accept NOVITA_API_KEY ({answer.problem})", code="AUTHENTICATION_FAILED"
        )
    if not answer.is_success:
        raise CloudTransientError(f"the provider cannot be called: {answer.problem}")


@asynccontextmanager
async def _opened(settings: Settings, clock: Clock) -> AsyncGenerator[_Provider]:
    timeout = settings.provider.request_timeout_ms / 1000
    limit = settings.provider.rate_limit_per_minute
    async with contextlib.AsyncExitStack() as stack:
        simulated, base_url, key = await stack.enter_async_context(opened_provider(settings, clock))

        async def account(api_key: SecretStr) -> RawCalls:
            exchange = HttpExchange(base_url=base_url, api_key=api_key, timeout_seconds=timeout, clock=clock)
            return RawCalls(await stack.enter_async_context(exchange), clock)

        calls = RecordedCalls(await account(key), clock, per_minute=None if limit == "auto" else limit)
        parts = urlsplit(base_url)
        name = "the simulator" if simulated is not None else f"{parts.scheme}://{parts.hostname}"
        yield _Provider(calls=calls, wrong_key=await account(WRONG_KEY), key=key.get_secret_value(), name=name)
