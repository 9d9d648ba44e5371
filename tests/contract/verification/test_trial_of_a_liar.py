"""A provider that lies about the trial machine: no machine of the account is harmed, and none is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from support.provider.verified import AccountClock, VerifiedAccount, results, verified_account

from corral.cloud.trial_file import PendingTrial, TrialFile
from corral.domain.errors import CloudError, CloudUnknownError, GoalRefusedError
from corral.domain.verification import trial_plan
from corral.engine.verification.removal import SETTLE_SECONDS
from novitasim.testing import Simulated

LATE: dict[str, object] = {"list_lag_seconds": 50, "get_lag_seconds": 40}
"""Neither the list nor the lookup, nor a delete, finds a machine that was just created."""


@pytest_asyncio.fixture
async def account(tmp_path: Path) -> AsyncGenerator[VerifiedAccount]:
    async with verified_account(tmp_path) as found:
        await found.build({"metrics_late_seconds": 0, "metrics_when_down": "zero"})
        yield found


def left(account: VerifiedAccount) -> list[str]:
    return [each.order.name for each in account.sim.instances("^corral-verify-")]


def begun(account: VerifiedAccount, ago: timedelta) -> str:
    """The name of a machine whose create was sent *ago*, by a process that was killed then."""
    file = TrialFile(account.data_dir)
    file.claim()
    name = file.new_name()
    file.begin(PendingTrial(name=name, sent_at=AccountClock(account.sim).now() - ago))
    file.release()
    return name


async def test_a_create_that_answers_with_the_id_of_another_machine_does_not_harm_it(account: VerifiedAccount) -> None:
    """The machine that was there before is neither stopped nor deleted; the new one is found by its name."""
    (other, _) = account.sim.instances("^worker-")
    account.sim.set(odd_answers=f'create.id="{other.id}"')
    found = results(await account.verify(spend_usd=0.10))

    assert found["delete.gone"] == "holds"
    assert len(account.sim.instances("^worker-")) == 2
    assert account.sim.calls()["endpoints"]["stop"]["total"] == 1
    assert {row["status"] for row in (await account.sim.ask("/gpu/instances"))[1]["instances"]} == {"running"}
    assert left(account) == []


async def test_the_machine_of_a_product_that_does_not_exist_is_deleted_by_its_id(
    account: VerifiedAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A create that was expected to be refused is accepted, and the list shows its machine later than a refusal's."""
    products = (await account.sim.ask("/products"))[1]["data"]
    monkeypatch.setattr(trial_plan, "NO_PRODUCT", next(each["id"] for each in products if each["availableDeploy"]))
    account.sim.set(**LATE)
    found = results(await account.verify(spend_usd=0.10))

    account.sim.advance(120)
    assert found["create.refusal"] == "differs"
    assert left(account) == []


async def test_a_trial_that_is_interrupted_while_it_searches_for_its_machine_deletes_it(
    account: VerifiedAccount,
) -> None:
    """The create was answered with success, but without an id, and the list does not show the machine yet."""

    class SearchEndingClock(AccountClock):
        def __init__(self, sim: Simulated, task: asyncio.Task[object] | None) -> None:
            super().__init__(sim)
            self._task = task

        async def sleep(self, seconds: float) -> None:
            task = self._task
            if task is not None and account.said[-1].startswith("searching"):
                self._task = None
                task.cancel()
            await super().sleep(seconds)

    async def verified() -> None:
        await account.verify(spend_usd=0.10, clock=SearchEndingClock(account.sim, asyncio.current_task()))

    account.sim.set(**LATE)
    account.sim.fault("garbage", on="create")
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(verified())

    account.sim.advance(120)
    assert left(account) == []


@pytest.mark.parametrize("fault", ["error_500", "html", "hang", "garbage"])
async def test_a_marked_machine_that_cannot_be_looked_up_is_reported(account: VerifiedAccount, fault: str) -> None:
    """Whether it is a trial machine is not certain, so it is not deleted; that nothing was left is not said either."""
    await account.sim.create(begun(account, timedelta(hours=1)))
    seconds = {"seconds": 0.01} if fault == "hang" else {}
    account.sim.fault(fault, on="get", count=None, **seconds)
    with pytest.raises(CloudUnknownError, match=r"the machine [0-9a-f]{16} \(corral-verify-\w+-\w+\) .* --cleanup"):
        await account.cleanup()
    account.sim.no_more_faults()

    assert await account.cleanup() == (1, [])
    assert left(account) == []


async def test_a_marked_machine_that_the_lookup_shows_late_is_deleted(account: VerifiedAccount) -> None:
    account.sim.set(list_lag_seconds=0, get_lag_seconds=90)
    await account.sim.create(begun(account, timedelta(hours=1)))

    assert await account.cleanup() == (1, [])
    assert left(account) == []


@pytest.mark.parametrize("value", ["missing", "17"])
async def test_a_machine_without_a_readable_id_is_reported(account: VerifiedAccount, value: str) -> None:
    """By its name: a person finds it in the provider's console."""
    account.sim.set(odd_answers=f"create.id={value};list.id={value};get.id={value}")
    with pytest.raises(CloudUnknownError, match=r"corral-verify-\w+-\w+ .* console"):
        await account.verify(spend_usd=0.10)
    with pytest.raises(CloudUnknownError, match=r"corral-verify-\w+-\w+ .* console"):
        await account.cleanup()
    account.sim.set(odd_answers="")

    assert await account.cleanup() == (1, [])
    assert left(account) == []


async def test_nothing_is_created_while_the_list_cannot_be_read(account: VerifiedAccount) -> None:
    """Which machines were there before is then not known, nor could the new one be found by its name."""
    account.sim.fault("error_500", on="list", count=None)
    with pytest.raises(CloudError, match="the list could not be read"):
        await account.verify(spend_usd=0.10)

    assert account.sim.calls()["endpoints"]["create"]["total"] == 2


async def test_a_pending_create_of_the_future_is_awaited_no_longer_than_another(account: VerifiedAccount) -> None:
    """The clock of this machine was set back since."""
    begun(account, timedelta(days=-365))
    before = account.sim.now()

    assert await account.cleanup() == (0, [])
    assert SETTLE_SECONDS <= account.sim.now() - before < 2 * SETTLE_SECONDS


async def test_a_limit_that_is_no_number_allows_nothing(account: VerifiedAccount) -> None:
    """`--spend nan` is a number to Python, and no price is above it."""
    with pytest.raises(GoalRefusedError, match="no machine is created"):
        await account.verify(spend_usd=float("nan"))
