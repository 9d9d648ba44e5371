"""
Translates the bill and the balance into our types. Pure and total: nothing here raises.

Amounts are whole numbers of 1/10000 USD by the documentation. Undocumented fields carry them exactly, in a unit that
nothing says: the one of the two possible units is taken that agrees with the whole number, and neither if none does.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import msgspec

from corral.cloud.novita import values
from corral.cloud.novita.billing import wire
from corral.cloud.novita.translate import moment
from corral.domain.costs.bill import Balance, BillRow, BillRows

MICRO_USD_PER_UNIT: Final = 100
"""The billing service counts in 1/10000 USD, the catalog in 1/100000."""
MICRO_USD: Final = 1_000_000
MOST_AMOUNT: Final = 1e13
"""In 1/10000 USD: a thousand million dollars; a higher amount is an error."""
MOST_PRECISION: Final = 12
MOST_ROWS: Final = 100_000
"""Of one answer that are looked at; two thousand machines have half as many in a day."""
MOST_COMMAS: Final = 30 * MOST_ROWS
"""In one answer: a row has sixteen fields. Fewer, and a bill with more fields in its rows is refused; more, and an
answer of nothing but tiny elements needs gigabytes of memory, because each element is an object of its own."""
MOST_WORD_LENGTH: Final = 200


def bill_rows(seen: wire.Bills) -> BillRows | None:
    """The rows of *seen*; None if it has no list of rows, which is not an empty bill, or one that is no bill."""
    if bytes(seen.bills).count(b",") > MOST_COMMAS:
        return None
    try:
        parts = msgspec.json.decode(seen.bills, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    rows = [_row(values.one(part, wire.Row)) for part in parts[:MOST_ROWS]]
    found = tuple(row for row in rows if row is not None)
    return BillRows(rows=found, unreadable=len(parts) - len(found))


def balance(seen: wire.BalanceAnswer) -> Balance | None:
    """The balance; None if *seen* does not say what is available."""
    available = _micro_usd(seen.available_balance)
    if available is None:
        return None
    return Balance(
        available_micro_usd=available,
        cash_micro_usd=_micro_usd(seen.cash_balance),
        credit_limit_micro_usd=_micro_usd(seen.credit_limit),
        pending_charges_micro_usd=_micro_usd(seen.pending_charges),
        outstanding_invoices_micro_usd=_micro_usd(seen.outstanding_invoices),
    )


def _row(seen: wire.Row) -> BillRow | None:
    started_at = moment(seen.start_time)
    whole = _number(seen.amount)
    if whole is None and (paid := _number(seen.pay_amount)) is not None:
        whole = paid + (_number(seen.voucher_amount) or Decimal(0))
    amount = _exact(seen.amount_decimal, whole)
    if started_at is None or (amount is None and whole is None):
        return None
    is_exact = amount is not None
    return BillRow(
        owner_id=values.identity(seen.owner_id),
        category=values.text(seen.category)[:MOST_WORD_LENGTH],
        product_name=values.text(seen.product_name)[:MOST_WORD_LENGTH],
        started_at=started_at,
        micro_usd=round(amount if amount is not None else (whole or Decimal(0)) * MICRO_USD_PER_UNIT),
        slack_micro_usd=0 if is_exact else MICRO_USD_PER_UNIT,
        paid_micro_usd=_paid(seen),
        unit_price=_unit_price(seen),
    )


def _paid(seen: wire.Row) -> int | None:
    whole = _number(seen.pay_amount)
    exact = _exact(seen.payable_decimal, whole)
    if exact is not None:
        return round(exact)
    return None if whole is None else round(whole * MICRO_USD_PER_UNIT)


def _exact(decimal: values.Scalar, whole: Decimal | None) -> Decimal | None:
    """Micro-USD of an exact amount, in the unit that agrees with the *whole* number; None if neither does."""
    found = _number(decimal)
    if found is None:
        return None
    if whole is None:
        return found * MICRO_USD_PER_UNIT
    shown = whole * MICRO_USD_PER_UNIT
    nearest = min(found * MICRO_USD_PER_UNIT, found * MICRO_USD, key=lambda micro_usd: abs(micro_usd - shown))
    return nearest if abs(nearest - shown) <= MICRO_USD_PER_UNIT else None


def _unit_price(seen: wire.Row) -> Decimal | None:
    discount = _number(seen.discount_price)
    price = discount if discount is not None else _number(seen.base_price)
    precision = values.whole(seen.price_precision)
    if price is None or precision is None or price <= 0 or not 0 <= precision <= MOST_PRECISION:
        return None
    return price * MICRO_USD / Decimal(10) ** precision


def _micro_usd(value: values.Scalar) -> int | None:
    found = _number(value)
    return None if found is None else int(found * MICRO_USD_PER_UNIT)


def _number(value: values.Scalar) -> Decimal | None:
    found = values.number(value)
    # By way of text, so that 0.1 stays 0.1.
    return Decimal(repr(found)) if found is not None and abs(found) <= MOST_AMOUNT else None
