"""Names of trial machines, and which machine a trial takes."""

from __future__ import annotations

import pytest

from corral.domain.instance import InstanceId
from corral.domain.observation.provider_names import ProviderName, parse_provider_name, provider_name
from corral.domain.verification.trial_names import TrialName, marked_start, parse_trial_name
from corral.domain.verification.trial_plan import TRIAL_SECONDS, cheapest

PRODUCT: dict[str, object] = {
    "id": "4090.16c62g",
    "name": "RTX 4090 24GB",
    "availableDeploy": True,
    "billingMethods": ["onDemand", "spot"],
    "price": "35000",
}


@pytest.mark.parametrize("mark", ["abcdef", "012345"])
def test_a_trial_machine_is_none_of_the_service_and_the_other_way_round(mark: str) -> None:
    """A service adopts and reports machines by their provider name: the two kinds of names must not be confused."""
    trial = str(TrialName(mark=mark, serial="0123abcd"))
    served = provider_name(ProviderName(installation=mark, instance_id=InstanceId("inst_1"), attempt=1))

    assert parse_trial_name(trial) == TrialName(mark=mark, serial="0123abcd")
    assert parse_provider_name(trial) is None
    assert parse_trial_name(served) is None
    assert not trial.startswith(f"corral-{mark}")
    assert trial.startswith(marked_start(mark))


@pytest.mark.parametrize(
    "name", ["corral-verify-abcdef-0123abcd-1", "x-corral-verify-abcdef-0123abcd", "corral-verify-ABCDEF-0123abcd", ""]
)
def test_other_names_have_no_mark(name: str) -> None:
    assert parse_trial_name(name) is None


def test_the_cheapest_product_in_stock_is_taken() -> None:
    """Of those that are sold on demand; what it may cost is rounded up."""
    others: list[dict[str, object]] = [
        {**PRODUCT, "id": "sold out", "availableDeploy": False, "price": "1"},
        {**PRODUCT, "id": "by the month", "billingMethods": ["monthly"], "price": "2"},
        {**PRODUCT, "id": "free", "price": "0"},
        {**PRODUCT, "id": "odd", "price": {}},
        {**PRODUCT, "id": "dear", "price": 70000},
        {"id": "", "price": "3"},
    ]
    offer = cheapest([*others, PRODUCT])

    assert offer is not None
    assert (offer.product_id, offer.micro_usd) == ("4090.16c62g", 350_000)
    assert offer.most_micro_usd == 87_500
    assert TRIAL_SECONDS == 900
    assert cheapest(others[:4]) is None
