"""What the provider says about money: the rows of its bill, and the balance of the account. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum


class BillCategory(StrEnum):
    """The categories of bill rows that may be about machines, in the provider's words."""

    GPU = "gpu"
    STORAGE = "cloud_storage"
    """Disks of machines, and network volumes."""


class BillCycle(StrEnum):
    """What one row of the bill is about, in the provider's words."""

    HOUR = "Hour"
    DAY = "Day"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillRow:
    """One row: what was charged for one owner."""

    owner_id: str
    """The provider's id of the machine or volume; empty if the row names none."""
    category: str
    product_name: str
    started_at: datetime
    micro_usd: int
    """Before vouchers."""
    slack_micro_usd: int
    """How much more or less it may have been, because the provider shows whole numbers of 1/10000 USD; 0: exact."""
    paid_micro_usd: int | None
    """What is left to pay after vouchers; None if the row does not say."""
    unit_price: Decimal | None
    """Micro-USD of one GPU for an hour, or of one GB for a day; None if the row does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BillRows:
    """What was read of a bill."""

    rows: tuple[BillRow, ...]
    unreadable: int = 0
    """Rows without a time or an amount that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The money of the account; None for what the provider does not say."""

    available_micro_usd: int
    """What can be spent: cash and credit, less what is charged and not yet settled."""
    cash_micro_usd: int | None = None
    credit_limit_micro_usd: int | None = None
    pending_charges_micro_usd: int | None = None
    outstanding_invoices_micro_usd: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceReading:
    """The balance, or why it is not known."""

    balance: Balance | None
    problem: str | None
    read_at: datetime
