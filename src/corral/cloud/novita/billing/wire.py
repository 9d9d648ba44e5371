"""The shapes of the billing service's answers, as in `novita/wire.py`: nothing is required."""

from __future__ import annotations

import msgspec

from corral.cloud.novita.values import Part, Scalar

NOTHING = msgspec.Raw(b"null")


class Row(msgspec.Struct, rename="camel"):
    """One row of the bill. The fields that end in `decimal` are undocumented."""

    start_time: Scalar = None
    product_name: Scalar = None
    category: Scalar = None
    owner_id: Scalar = msgspec.field(default=None, name="ownerID")
    base_price: Scalar = msgspec.field(default=None, name="basePrice0")
    discount_price: Scalar = msgspec.field(default=None, name="discountPrice0")
    price_precision: Scalar = None
    amount: Scalar = None
    voucher_amount: Scalar = None
    pay_amount: Scalar = None
    amount_decimal: Scalar = None
    payable_decimal: Scalar = None


class Bills(msgspec.Struct):
    """The rows of a period; without the field the answer is none about a bill."""

    bills: Part = NOTHING


class BalanceAnswer(msgspec.Struct, rename="camel"):
    """The balance, in 1/10000 USD."""

    available_balance: Scalar = None
    cash_balance: Scalar = None
    credit_limit: Scalar = None
    pending_charges: Scalar = None
    outstanding_invoices: Scalar = None
