"""The trial machine of `corral verify --spend` is deleted whatever happens, and no other machine is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from support.provider.verified import AccountClock, VerifiedAccount, results, verified_account

from corral.cloud.trial_file import PendingTrial, TrialFile
from corral.domain.errors import CloudUnknownError, GoalRefusedError
from corral.domain.verification.trial_names import TrialName
from corral.engine.verification import trial
from novitasim.testing import Simulated

QUICK: dict[str, object] = {"metrics_late_seconds": 0, "metrics_when_down": "zero"}
"""The first measurement is there at once, so that a trial has fewer calls."""


@pytest_asyncio.fixture
async def account(tmp_path: Path) -> AsyncGenerator[VerifiedAccount]:
    async with verified_account(tmp_path) as found:
        await found.build(QUICK)
        yield found


LAGS: list[dict[str, object]] = [{}, {"list_lag_seconds": 50, "get_lag_seconds": 40}]
"""With the second, neither the list nor the lookup, nor a delete, finds a machine that was just created."""


class KilledError(BaseException):
    """The process is dead."""


class EndingClock(AccountClock):
    """Ends the verification at one of its calls: by cancelling it, or so that nothing after it has any effect."""

    def __init__(self, sim: Simulated, at: int, *, cancels: asyncio.Task[object] | None = None) -> None:
        super().__init__(sim)
        self.turns = 0
        self._at = at
        self._cancels = cancels

    def monotonic(self) -> float:
        self.turns += 1
        if self._cancels is None and self.turns >= self._at:
            raise KilledError
        if self._cancels is not None and self.turns == self._at:
            self._cancels.cancel()
        return super().monotonic()


async def turns(account: VerifiedAccount) -> int:
    """How often a whole trial looks at the clock: before each call, and in each wait."""
    clock = EndingClock(account.sim, 10**9)
    await account.verify(spend_usd=0.10, clock=clock)
    return clock.turns


async def interrupted(account: VerifiedAccount, at: int) -> None:
    """Verify, and be cancelled at turn *at*, as by a signal."""
    clock = EndingClock(account.sim, at, cancels=asyncio.current_task())
    await account.verify(spend_usd=0.10, clock=clock)


def billed_alone(account: VerifiedAccount) -> bool:
    living = account.sim.instances("^corral-verify-")
    return living == [] and account.sim.billed_at_once("corral-verify-.*") <= 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("quirks", LAGS, ids=["seen", "seen late"])
async def test_a_trial_that_is_killed_at_any_call_leaves_nothing_behind(
    account: VerifiedAccount, quirks: dict[str, object]
) -> None:
    """The next run finds its machine by the mark, also if the provider shows it late, and deletes it."""
    account.sim.set(**quirks)
    left = 0
    for at in range(await turns(account), 20, -5):
        with pytest.raises(KilledError):
            await account.verify(spend_usd=0.10, clock=EndingClock(account.sim, at))
        exists = bool(account.sim.instances("^corral-verify-"))
        left += exists

        assert await account.cleanup() == (int(exists), [])
        assert billed_alone(account), f"killed at turn {at}"
    assert left > 5, "no machine was ever left: the test kills at the wrong places"
    assert len(account.sim.instances("^worker-")) == 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize("quirks", LAGS, ids=["seen", "seen late"])
async def test_a_trial_that_is_interrupted_at_any_call_deletes_its_machine(
    account: VerifiedAccount, quirks: dict[str, object]
) -> None:
    """Ctrl-C and SIGTERM cancel it; it ends by itself, with nothing left for the next run."""
    account.sim.set(**quirks)
    for at in range(await turns(account), 20, -5):
        verifying = asyncio.create_task(interrupted(account, at))
        with pytest.raises(asyncio.CancelledError):
            await verifying

        account.sim.advance(120)
        assert billed_alone(account), f"interrupted at turn {at}"
        assert TrialFile(account.data_dir).pending() is None


@pytest.mark.parametrize("fault", ["lost_reply", "500_but_created", "garbage"])
async def test_a_create_with_unknown_outcome_is_searched_for_and_not_repeated(
    account: VerifiedAccount, fault: str
) -> None:
    """By its name, until the list shows it; then the trial goes on with it."""
    account.sim.set(list_lag_seconds=30)
    account.sim.fault(fault, on="create")
    found = results(await account.verify(spend_usd=0.10))

    assert found["stop.time"] == found["start.time"] == found["delete.gone"] == "holds"
    assert billed_alone(account)
    assert (
        account.sim.calls()["endpoints"]["create"]["total"] == 2 + 2
    )  # two machines of the account; create and refusal


async def test_a_provider_that_does_not_answer_does_not_lengthen_the_trial(
    account: VerifiedAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was allowed to be spent is a time: when it is over, the machine is deleted in the middle of a call."""
    monkeypatch.setattr(trial, "MOST_SECONDS", 1.0)
    account.sim.fault("hang", on="get", name="^corral-verify-")
    found = results(await account.verify(spend_usd=0.10))

    assert "the time of the trial is over" in account.said
    assert found["boot.time"] == "not seen"
    assert found["delete.gone"] == "holds"
    assert billed_alone(account)


async def test_a_create_that_is_refused_ends_the_trial(account: VerifiedAccount) -> None:
    account.sim.fault("deny", on="create")
    found = results(await account.verify(spend_usd=0.10))

    assert found["create.answer"] == found["create.listed"] == "not seen"
    assert billed_alone(account)


async def test_a_machine_that_cannot_be_deleted_is_reported_and_found_by_the_next_run(
    account: VerifiedAccount,
) -> None:
    """With its id and name, because a person must act; the next run deletes it."""
    account.sim.fault("error_500", on="delete", count=None)
    with pytest.raises(
        CloudUnknownError, match=r"the machine [0-9a-f]{16} \(corral-verify-\w+-\w+\) .* --cleanup"
    ) as left:
        await account.verify(spend_usd=0.10)
    (machine,) = account.sim.instances("^corral-verify-")
    account.sim.no_more_faults()
    await account.verify()

    assert machine.id in left.value.message
    assert billed_alone(account)


async def test_a_cleanup_without_any_trial_writes_nothing(account: VerifiedAccount) -> None:
    await account.sim.create(str(TrialName(mark="abcdef", serial="01234567")))

    assert await account.cleanup() == (0, ["abcdef"])
    assert list(account.data_dir.iterdir()) == []


async def test_only_machines_with_the_own_mark_are_deleted(account: VerifiedAccount) -> None:
    """Others are named by their mark, and deleted when a person says so."""
    file = TrialFile(account.data_dir)
    file.claim()
    own = file.mark()
    file.release()
    names = ["corral-verify", "corral-verify-abcdef-0123456", f"x-corral-verify-{own}-00000000", "corral-verify-zz"]
    spared = [await account.sim.create(name) for name in names]
    other = await account.sim.create(str(TrialName(mark="abcdef", serial="01234567")))
    mine = await account.sim.create(str(TrialName(mark=own, serial="01234567")))

    assert await account.cleanup() == (1, ["abcdef"])
    account.sim.advance(60)
    assert {each.id for each in account.sim.instances("verify")} == {*spared, other}
    assert await account.cleanup("abcdef") == (1, [])
    account.sim.advance(60)
    assert {each.id for each in account.sim.instances("verify")} == set(spared)
    assert mine not in spared


async def test_a_machine_whose_lookup_shows_another_name_is_not_deleted(account: VerifiedAccount) -> None:
    """A list that lies must not make us delete a machine of the account."""
    file = TrialFile(account.data_dir)
    file.claim()
    listed = str(TrialName(mark=file.mark(), serial="01234567"))
    file.release()
    account.sim.set(odd_answers=f'list.name="{listed}"')

    assert await account.cleanup() == (0, [])
    assert len(account.sim.instances("^worker-")) == 2


async def test_a_create_that_was_just_sent_is_awaited(account: VerifiedAccount) -> None:
    """A process that was killed while it created: its machine may appear as late as a call and the settle time."""
    file, clock = TrialFile(account.data_dir), AccountClock(account.sim)
    file.claim()
    name = file.new_name()
    file.begin(PendingTrial(name=name, sent_at=clock.now()))
    file.release()
    account.sim.set(list_lag_seconds=100, get_lag_seconds=100)
    await account.sim.create(name)

    assert (await account.cleanup())[0] == 1
    assert billed_alone(account)
    assert file.pending() is None


async def test_an_old_create_that_never_happened_is_forgotten_at_once(account: VerifiedAccount) -> None:
    file, clock = TrialFile(account.data_dir), AccountClock(account.sim)
    file.claim()
    file.begin(PendingTrial(name=file.new_name(), sent_at=clock.now() - timedelta(hours=1)))
    file.release()
    before = clock.monotonic()

    assert await account.cleanup() == (0, [])
    assert clock.monotonic() - before < 1
    assert file.pending() is None


async def test_two_trials_of_one_data_directory_exclude_each_other(account: VerifiedAccount) -> None:
    """The second creates nothing, and neither it nor a cleanup deletes the machine of the first."""
    running = TrialFile(account.data_dir)
    running.claim()
    machine = await account.sim.create(running.new_name())

    with pytest.raises(GoalRefusedError, match="another `corral verify --spend` runs"):
        await account.verify(spend_usd=0.10)
    with pytest.raises(GoalRefusedError, match="it deletes its machine"):
        await account.cleanup()
    await account.verify()
    assert [each.id for each in account.sim.instances("^corral-verify-")] == [machine]


@pytest.mark.parametrize(
    ("spend", "quirks", "why"),
    [
        (0.01, {}, r"15 minutes of the cheapest, RTX 3090 24GB, cost up to \$0.0525, and --spend allows \$0.0100"),
        (0.10, {"stock": 0}, "no product is in stock on demand"),
        (0.10, {"odd_answers": 'products.price="3500"'}, "its price is not certain: an hour of one RTX"),
        (0.10, {"odd_answers": "products.price=missing"}, "its price is not certain: `price` is missing"),
    ],
)
async def test_nothing_is_created_beyond_what_was_allowed(
    account: VerifiedAccount, spend: float, quirks: dict[str, object], why: str
) -> None:
    account.sim.set(**quirks)
    with pytest.raises(GoalRefusedError, match=why):
        await account.verify(spend_usd=spend)

    assert account.sim.calls()["endpoints"]["create"]["total"] == 2  # those of the account
    assert not TrialFile(account.data_dir).exists


async def test_nothing_is_created_without_consent(account: VerifiedAccount) -> None:
    with pytest.raises(GoalRefusedError, match="nothing was created"):
        await account.verify(spend_usd=0.10, agrees=False)

    assert account.sim.instances("^corral-verify-") == []


async def test_verify_reads_only(account: VerifiedAccount) -> None:
    """Without --spend no call changes anything, and no file is written."""
    before = {name: counts["total"] for name, counts in account.sim.calls()["endpoints"].items()}
    await account.verify()
    after = {name: counts["total"] for name, counts in account.sim.calls()["endpoints"].items()}
    changing = {"create", "start", "stop", "restart", "delete", "migrate", "edit", "upgrade"}

    assert {name for name in after if after[name] != before.get(name)} & changing == set()
    assert list(account.data_dir.iterdir()) == []


@pytest.mark.parametrize(
    "place", ["list.status", "get.status", "products.name", "templates.type", "balance.cashBalance"]
)
async def test_a_secret_in_an_odd_place_is_hidden(account: VerifiedAccount, place: str) -> None:
    """A word of the account in a field that reports quote; `VerifiedAccount.verify` looks for it in the report."""
    account.sim.set(odd_answers=f"{place}=plantedword")
    report = await account.verify()

    assert replace(account).secrets() >= {"plantedword"}
    assert report["calls"] > 20
