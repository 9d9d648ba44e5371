"""
Costs as CSV for spreadsheets and for FinOps tools: one line for each span of usage and each UTC day that it touches.

`plain` has a column for everything that is known of a span; `focus` has the columns of FOCUS 1.2 and, with the prefix
`x_` that it prescribes, the rest. Pure.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Final

import msgspec

from corral.domain.costs.forecast import month_of
from corral.domain.costs.parts import UsagePart
from corral.domain.placement.catalog import MICRO_USD

_FORMULA: Final = re.compile(r'(?:^|(?<=[;,|]))[ "]*(?=[=+\-@\uff1d\uff0b\uff0d\uff20])')
"""
Where a spreadsheet would begin a formula: at the start of a cell, and after a separator of another locale, at which it
may split a line. The last four characters are wide forms of the first.
"""
_UNITS: Final = {"gpu": "GPU-Hours", "disk": "GB-Hours"}
_PLACES: Final = 12
"""Decimal places of amounts: so many that lines add up to the total of their period."""


class ExportFormat(StrEnum):
    """`csv` has everything that Corral knows of a span; `focus` has the columns of FOCUS 1.2."""

    CSV = "csv"
    FOCUS = "focus"


Column = Callable[[UsagePart, str], str]
"""The cell of a span, in an export of the installation with this id."""


def header(chosen: ExportFormat) -> str:
    """The first line."""
    return _written([list(_COLUMNS[chosen])])


def lines(chosen: ExportFormat, parts: Iterable[UsagePart], installation: str) -> str:
    """A line for each of *parts*."""
    cells = _COLUMNS[chosen].values()
    return _written([column(usage, installation) for column in cells] for usage in parts)


def columns(chosen: ExportFormat) -> list[str]:
    """The names of the columns, in their order."""
    return list(_COLUMNS[chosen])


def text_cell(text: str | None) -> str:
    """*text* on one line, with an apostrophe where a spreadsheet would begin a formula."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text or "")
    return _FORMULA.sub(r"\g<0>'", shown)


def _written(rows: Iterable[Iterable[str]]) -> str:
    """*rows* as CSV (RFC 4180)."""
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\r\n").writerows(rows)
    return written.getvalue()


def _usd(micro_usd: Fraction) -> str:
    return _number(micro_usd / MICRO_USD)


def _number(value: Fraction) -> str:
    """*value*, which is not negative, without an exponent and without zeros at its end."""
    whole, part = divmod(round(value * 10**_PLACES), 10**_PLACES)
    return f"{whole}.{part:0{_PLACES}}".rstrip("0").rstrip(".")


def _time(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _end(usage: UsagePart) -> str:
    """The end of a span; at least a second after its start, because the times have whole seconds."""
    start = usage.starts_at.replace(microsecond=0)
    return _time(max(usage.ends_at, start + timedelta(seconds=1)))


def _hours(usage: UsagePart) -> Fraction:
    """GPU-hours or GB-hours: the quantity for which the unit price gives the cost."""
    if usage.unit_price:
        return usage.cost.usd / usage.unit_price
    return Fraction((usage.ends_at - usage.starts_at) // timedelta(microseconds=1), 3_600_000_000) * usage.quantity


def _pricing(usage: UsagePart) -> str:
    """Spot prices of GPUs change; those of disks do not."""
    return "Dynamic" if usage.kind == "gpu" and usage.billing_mode == "spot" else "Standard"


def _json(labels: Mapping[str, str]) -> str:
    """*labels* as a JSON object, in which the separators of other locales are escaped."""
    text = msgspec.json.encode(dict(sorted(labels.items()))).decode()
    return text.replace(";", "\\u003b").replace("|", "\\u007c")


def _description(usage: UsagePart) -> str:
    what = f"{usage.quantity} GB of disk above the free part"
    if usage.kind == "gpu":
        what = f"{usage.quantity} x {usage.product_name}, {usage.billing_mode}"
    return text_cell(f"{what}: {usage.cause}")


_PLAIN: Final[Mapping[str, Column]] = {
    "day": lambda usage, _: _time(usage.starts_at)[:10],
    "from": lambda usage, _: _time(usage.starts_at),
    "to": lambda usage, _: _end(usage),
    "instanceId": lambda usage, _: text_cell(usage.instance_id),
    "name": lambda usage, _: text_cell(usage.instance_name),
    "novitaInstanceId": lambda usage, _: text_cell(usage.provider_id),
    "createdBy": lambda usage, _: text_cell(usage.created_by),
    "productName": lambda usage, _: text_cell(usage.product_name),
    "region": lambda usage, _: text_cell(usage.region),
    "billingMode": lambda usage, _: text_cell(usage.billing_mode),
    "kind": lambda usage, _: usage.kind,
    "cause": lambda usage, _: usage.cause,
    "quantity": lambda usage, _: str(usage.quantity),
    "usdPerUnitHour": lambda usage, _: _usd(usage.unit_price),
    "unitHours": lambda usage, _: _number(_hours(usage)),
    "usd": lambda usage, _: _usd(usage.cost.usd),
    "low": lambda usage, _: _usd(usage.cost.low),
    "high": lambda usage, _: _usd(usage.cost.high),
    "estimated": lambda usage, _: "true" if usage.cost.is_estimated else "false",
    "labels": lambda usage, _: _json(usage.labels),
}
_FOCUS: Final[Mapping[str, Column]] = {
    "BilledCost": lambda usage, _: _usd(usage.cost.usd),
    "BillingAccountId": lambda _, installation: text_cell(installation),
    "BillingAccountName": lambda _, installation: text_cell(f"Corral {installation}"),
    "BillingCurrency": lambda _usage, _installation: "USD",
    "BillingPeriodEnd": lambda usage, _: _time(month_of(usage.starts_at).ends_at),
    "BillingPeriodStart": lambda usage, _: _time(month_of(usage.starts_at).starts_at),
    "ChargeCategory": lambda _usage, _installation: "Usage",
    "ChargeClass": lambda _usage, _installation: "",
    "ChargeDescription": lambda usage, _: _description(usage),
    "ChargeFrequency": lambda _usage, _installation: "Usage-Based",
    "ChargePeriodEnd": lambda usage, _: _end(usage),
    "ChargePeriodStart": lambda usage, _: _time(usage.starts_at),
    "ConsumedQuantity": lambda usage, _: _number(_hours(usage)),
    "ConsumedUnit": lambda usage, _: _UNITS[usage.kind],
    "ContractedCost": lambda usage, _: _usd(usage.cost.usd),
    "ContractedUnitPrice": lambda usage, _: _usd(usage.unit_price),
    "EffectiveCost": lambda usage, _: _usd(usage.cost.usd),
    "InvoiceIssuerName": lambda _usage, _installation: "Novita AI",
    "ListCost": lambda usage, _: _usd(usage.cost.usd),
    "ListUnitPrice": lambda usage, _: _usd(usage.unit_price),
    "PricingCategory": lambda usage, _: _pricing(usage),
    "PricingQuantity": lambda usage, _: _number(_hours(usage)),
    "PricingUnit": lambda usage, _: _UNITS[usage.kind],
    "ProviderName": lambda _usage, _installation: "Novita AI",
    "PublisherName": lambda _usage, _installation: "Novita AI",
    "RegionId": lambda usage, _: text_cell(usage.region),
    "RegionName": lambda usage, _: text_cell(usage.region),
    "ResourceId": lambda usage, _: text_cell(usage.provider_id),
    "ResourceName": lambda usage, _: text_cell(usage.instance_name),
    "ResourceType": lambda usage, _: "GPU instance" if usage.kind == "gpu" else "Disk",
    "ServiceCategory": lambda usage, _: "Compute" if usage.kind == "gpu" else "Storage",
    "ServiceName": lambda _usage, _installation: "GPU Instances",
    "ServiceSubcategory": lambda usage, _: "Virtual Machines" if usage.kind == "gpu" else "Block Storage",
    "Tags": lambda usage, _: _json(usage.labels),
    "x_Cause": lambda usage, _: usage.cause,
    "x_CostHigh": lambda usage, _: _usd(usage.cost.high),
    "x_CostLow": lambda usage, _: _usd(usage.cost.low),
    "x_CreatedBy": lambda usage, _: text_cell(usage.created_by),
    "x_Estimated": lambda usage, _: "true" if usage.cost.is_estimated else "false",
    "x_InstanceId": lambda usage, _: text_cell(usage.instance_id),
    "x_ProductName": lambda usage, _: text_cell(usage.product_name),
}
_COLUMNS: Final = {ExportFormat.CSV: _PLAIN, ExportFormat.FOCUS: _FOCUS}
