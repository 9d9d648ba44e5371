"""The provider's bill and balance in our types, however oddly they are written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from corral.cloud.novita.billing import translate, wire
from corral.domain.costs.bill import Balance, BillRow

START = 1_790_812_800
ROW = {"startTime": str(START), "category": "gpu", "ownerID": "5be2", "productName": "RTX 4090 24GB"}


def read(*rows: object) -> tuple[list[BillRow], int]:
    found = translate.bill_rows(wire.Bills(bills=msgspec.Raw(msgspec.json.encode(rows))))
    assert found is not None
    return list(found.rows), found.unreadable


def one(**fields: Any) -> BillRow:
    (row,), unreadable = read(ROW | fields)
    assert unreadable == 0
    return row


def test_a_row_names_its_owner_its_time_and_its_price() -> None:
    row = one(amount="3498", discountPrice0="31500", basePrice0="35000", pricePrecision=5)

    assert (row.owner_id, row.category, row.product_name) == ("5be2", "gpu", "RTX 4090 24GB")
    assert row.started_at == datetime.fromtimestamp(START, UTC)
    assert row.unit_price == 315_000


@pytest.mark.parametrize(
    ("fields", "micro_usd", "slack"),
    [
        ({"amount": "3498"}, 349800, 100),
        ({"amount": 3498, "amountDecimal": "3498.0555"}, 349806, 0),
        ({"amount": 3498, "amountDecimal": 0.34980555}, 349806, 0),
        ({"amount": "0", "amountDecimal": "0.35"}, 35, 0),
        ({"amount": "1", "amountDecimal": "0.0001"}, 100, 0),
        ({"amount": 3498, "amountDecimal": "777"}, 349800, 100),
        ({"amount": 3498, "amountDecimal": "lots"}, 349800, 100),
        ({"amountDecimal": "3498.5"}, 349850, 0),
        ({"payAmount": "3000", "voucherAmount": "498"}, 349800, 100),
        ({"amount": -50}, -5000, 100),
    ],
)
def test_exact_amounts_are_preferred_if_they_agree_with_the_whole_number(
    fields: dict[str, object], micro_usd: int, slack: int
) -> None:
    """In whichever of the two units that makes them agree; else the whole number may be off by one."""
    row = one(**fields)

    assert (row.micro_usd, row.slack_micro_usd) == (micro_usd, slack)


@pytest.mark.parametrize(
    "fields",
    [
        {"basePrice0": "35000"},
        {"basePrice0": "35000", "pricePrecision": 400},
        {"basePrice0": "free", "pricePrecision": 5},
        {"basePrice0": -1, "pricePrecision": 5},
    ],
)
def test_a_price_that_cannot_be_read_is_none(fields: dict[str, object]) -> None:
    assert one(amount=1, **fields).unit_price is None


def test_a_row_without_time_or_amount_is_counted_and_hides_no_other() -> None:
    rows, unreadable = read({"amount": 1}, ROW, "text", None, [1], ROW | {"amount": "1e400"}, ROW | {"amount": 5})

    assert ([row.micro_usd for row in rows], unreadable) == ([500], 6)


@pytest.mark.parametrize("content", [b"null", b"{}", b'"x"', b'[{"a":\xff}]'])
def test_an_answer_without_rows_is_not_an_empty_bill(content: bytes) -> None:
    assert translate.bill_rows(wire.Bills(bills=msgspec.Raw(content))) is None


def test_an_answer_of_more_elements_than_any_bill_is_not_read() -> None:
    """Each element is an object of its own: the 32 MiB that an answer may have would need more than 1 GiB of memory."""
    content = b"[" + b"0," * translate.MOST_COMMAS + b"0,0]"

    assert translate.bill_rows(wire.Bills(bills=msgspec.Raw(content))) is None


def test_the_balance_is_read_as_far_as_it_is_there() -> None:
    found = translate.balance(wire.BalanceAnswer(available_balance="96500", cash_balance=100_000, pending_charges="x"))

    assert found == Balance(available_micro_usd=9_650_000, cash_micro_usd=10_000_000)
    assert translate.balance(wire.BalanceAnswer(cash_balance="1")) is None
