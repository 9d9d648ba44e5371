"""Every check of `corral verify` holds on the truthful simulator, and differs when its assumption is made false."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.provider.verified import VerifiedAccount, results, verified_account
from support.suite import pages

from corral.domain.verification.table import CHECKS


@dataclass(frozen=True, kw_only=True)
class Lie:
    """Settings of the simulator that make one assumption false."""

    settings: Mapping[str, object]
    truth: Mapping[str, object] = field(default_factory=dict)
    """Settings without which the assumption is not seen; those of the lie come on top."""
    spends: bool = False
    """Whether a trial machine is needed to see it."""
    bills: bool = False
    """Whether the machine must be in the bill, which shows it hours later."""
    spot: bool = False
    """Whether the machines of the account are spot machines, one with notice and one reclaimed."""


def odd(*rules: str) -> dict[str, object]:
    return {"odd_answers": ";".join(rules)}


def plain(**settings: object) -> Lie:
    return Lie(settings=settings)


def spending(**settings: object) -> Lie:
    return Lie(settings=settings, spends=True)


def spot(**settings: object) -> Lie:
    return Lie(settings=settings, spot=True, truth={"removed_stay_listed": True})


LIES: dict[str, Lie] = {
    "list.fields": plain(**odd("list.gpuNum={}")),
    "list.agrees": plain(get_lag_seconds=1e6),
    "list.total": plain(**odd("list.total=1")),
    "list.page_base": plain(page_base=1),
    "list.page_size": plain(page_size_cap=1),
    "list.order": plain(list_order="oldest"),
    "list.name_filter": plain(name_filter="nothing"),
    "list.name_filter_start": plain(name_filter="exact"),
    "list.name_filter_narrows": plain(name_filter="ignored"),
    "list.status_filter": plain(status_filter="nothing"),
    "list.statuses": plain(**odd("list.status=melting")),
    "list.times": plain(extras_in_list=False),
    "list.endpoints": plain(endpoint_in_list=False),
    "lookup.fields": plain(**odd("get.clusterId=missing")),
    "lookup.product": plain(extras_in_get=False),
    "lookup.endpoints": plain(**odd("get.endpoint=nowhere")),
    "lookup.ssh": plain(**odd("get.sshCommand=telnet somewhere")),
    "lookup.logs": plain(**odd("get.connectComponentLog=missing")),
    "lookup.spot": plain(spot_in_get=False),
    "lookup.kept_days": plain(**odd("get.keepDataDay=missing")),
    "spot.statuses": plain(**odd("list.spotStatus=missing")),
    "spot.reclaim_time": spot(spot_reclaim_time="notice"),
    "spot.end": spot(spot_end="removed"),
    "catalog.products": plain(**odd("products.price=missing")),
    "catalog.price_type": plain(price_type="number"),
    "catalog.price_unit": plain(**odd('products.price="3500"')),
    "catalog.spot_price": plain(**odd('products.spotPrice="0"')),
    "catalog.billing_filter": plain(product_filters="ignored"),
    "catalog.cluster_filter": plain(product_filters="ignored"),
    "catalog.clusters": plain(**odd("clusters.name=missing")),
    "catalog.regions": plain(region_names="short"),
    "catalog.own_regions": plain(**odd("clusters.name=Mars")),
    "templates.fields": plain(**odd("templates.Id=missing")),
    "templates.page_base": plain(template_page_base=1),
    "templates.one": plain(**odd("template.envs=missing")),
    "templates.limits": plain(**odd('templates.ports=[{"type":"http","ports":[2222]}]')),
    "registry.fields": plain(**odd("auths.password=missing")),
    "volumes.fields": plain(**odd("storages.clusterId=missing")),
    "volumes.page_base": plain(storage_page_base=1),
    "refusal.unknown_instance": plain(**odd("get.reason=REQUEST", "get.message=no")),
    "refusal.not_found_status": plain(not_found_status=404),
    "refusal.unknown_template": plain(**odd("template.reason=REQUEST", "template.message=no")),
    "refusal.shape": plain(**odd("get.code=missing")),
    "refusal.wrong_key": plain(bad_key_status=403),
    "clock.difference": plain(clock_ahead_seconds=300),
    "rate.admitted": plain(rate_limit_per_minute=20),
    "rate.retry_after": Lie(
        settings={"retry_after": "none"}, truth={"rate_limit_per_minute": 20, "retry_after": "date"}
    ),
    "rate.headers": plain(rate_headers="limit"),
    "metrics.fields": plain(**odd("metrics.avg=missing")),
    "metrics.late": plain(metrics_late_seconds=900),
    "metrics.unit": plain(metrics_unit="fraction"),
    "account.balance": plain(**odd("balance.availableBalance=12.5")),
    "bill.fields": plain(**odd("bills.ownerID=missing")),
    "bill.numbers": plain(bill_numbers="number"),
    "bill.category": plain(**odd("bills.category=other")),
    "bill.end": plain(bill_end="exclusive"),
    "bill.decimals": plain(bill_decimals=False),
    "bill.decimal_unit": plain(bill_decimal_unit="usd"),
    "bill.unit": plain(**odd("bills.pricePrecision=3")),
    "bill.late": plain(bill_lag_seconds=40_000),
    "bill.trial": Lie(settings=odd('bills.amount="99999"'), spends=True, bills=True),
    "create.refusal": spending(refused_create="created"),
    "create.unknown_product": spending(unknown_product_reason="RESOURCE_NOT_FOUND"),
    "create.answer": spending(**odd("create.id=missing")),
    "create.listed": spending(list_lag_seconds=90),
    "create.found_by_name": spending(name_filter="nothing"),
    "create.prompt": spending(**odd('list.createdAt="1799999999"')),
    "create.name": spending(**odd("get.name=renamed")),
    "create.lookup": spending(get_lag_seconds=30),
    "boot.time": spending(boot_seconds=500),
    "boot.statuses": spending(pending_first=True),
    "boot.billing_mode": spending(billing_mode_early="empty"),
    "boot.endpoints": spending(endpoints_when_down="kept"),
    "boot.logs": spending(log_offered="running"),
    "state.refused": spending(invalid_state_reason="REQUEST"),
    "stop.answer": spending(start_stop_answer="object"),
    "stop.time": spending(stop_seconds=200),
    "stop.kept_until": spending(release_data_at="milliseconds"),
    "start.answer": spending(start_stop_answer="empty"),
    "start.time": spending(start_seconds=200),
    "start.endpoints": spending(endpoint_changes_on_start=True),
    "delete.answer": spending(act_answer="pair"),
    "delete.gone": spending(remove_seconds=150),
    "delete.listed": spending(removed_stay_listed=True),
}


async def verified(account: VerifiedAccount, lie: Lie, settings: Mapping[str, object]) -> dict[str, str]:
    """What is found in an account with *settings*; a trial machine is also read in the bill of the next hours."""
    await account.build(settings, is_spot=lie.spot)
    if lie.spot:
        account.sim.fault("spot_notice", name="worker-a")
        account.sim.fault("spot_reclaim", name="worker-b")
        account.sim.advance(300)
    report = await account.verify(spend_usd=0.10 if lie.spends else None)
    found = results(report)
    if lie.spends:
        if lie.bills:
            account.sim.advance(3 * 3600)
            found["bill.trial"] = results(await account.verify())["bill.trial"]
        assert account.sim.instances("^corral-verify-") == [], "a trial machine was left behind"
        assert account.sim.billed_at_once("corral-verify-.*") <= 1, "there were two trial machines at a time"
    return found


def test_each_check_has_its_lie() -> None:
    """A check that cannot differ is none."""
    assert sorted(LIES) == sorted(check.id for check in CHECKS)


async def test_the_truthful_simulator_agrees_with_everything(tmp_path: Path) -> None:
    """Nothing differs, whatever is looked at; what an ordinary account does not show is seen where it is set up."""
    async with verified_account(tmp_path) as account:
        seen = await verified(account, LIES["bill.trial"], {})
        for name, lie in LIES.items():
            if lie.truth:
                seen[name] = (await verified(account, lie, lie.truth))[name]

    assert {name: result for name, result in seen.items() if result != "holds"} == {}
    assert len(seen) == len(CHECKS)


@pytest.mark.timeout(300)
async def test_each_lie_is_found(tmp_path: Path) -> None:
    """One simulator tells them all, one after the other."""
    async with verified_account(tmp_path) as account:
        found = {
            name: (await verified(account, lie, {**lie.truth, **lie.settings}))[name] for name, lie in LIES.items()
        }

    assert {name: result for name, result in found.items() if result != "differs"} == {}


def test_every_assumption_of_the_at_most_once_page_has_its_check() -> None:
    """The page lists what the guarantee rests on; each row names the check that looks at it."""
    page = pages.text("docs/explanation/at-most-once.md")
    rows = re.findall(r"^\| `([a-z_.]+)` \| \S", page, re.MULTILINE)

    assert len(rows) >= 8
    assert sorted(set(rows) - {check.id for check in CHECKS}) == []
