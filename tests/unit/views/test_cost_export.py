"""The lines of an export: columns, sums, and cells that no spreadsheet executes."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.costs.parts import UsagePart
from corral.domain.costs.totals import Cost
from corral.views.costs.export import ExportFormat, columns, header, lines

START = datetime(2026, 11, 30, 22, 15, 30, 400_000, tzinfo=UTC)
GPU = UsagePart(
    instance_id="inst_1",
    instance_name="trainer",
    provider_id="5be2c7d10f9a4436",
    kind="gpu",
    cause="serving",
    unit_price=Fraction(180_000),
    quantity=2,
    product_name="RTX 4090 24GB",
    region="CN-HK-01",
    billing_mode="spot",
    created_by="olga",
    labels={"team": "vision"},
    starts_at=START,
    ends_at=START + timedelta(minutes=30),
    cost=Cost(low=Fraction(179_000), usd=Fraction(180_000), high=Fraction(181_500)),
)
DISK = replace(
    GPU,
    kind="disk",
    cause="stopped_disk",
    unit_price=Fraction(5000, 24),
    quantity=40,
    cost=Cost(usd=Fraction(5000, 24) * 20),
    instance_id=None,
    instance_name=None,
    billing_mode="onDemand",
)
MANDATORY = {
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart",
    "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit",
    "ProviderName", "PublisherName", "ServiceCategory", "ServiceName",
}  # fmt: skip
"""The columns that every FOCUS 1.2 dataset has; only ChargeClass may be empty."""


def _read(chosen: ExportFormat, *found: UsagePart) -> list[dict[str, str]]:
    """The lines as another program reads them."""
    return list(csv.DictReader(io.StringIO(header(chosen) + lines(chosen, found, "a1b2c3"), newline="")))


def test_focus_has_the_mandatory_columns_filled() -> None:
    """In the names of the specification; a price and a quantity give the cost; own columns have the prefix."""
    gpu, disk = _read(ExportFormat.FOCUS, GPU, DISK)

    assert set(columns(ExportFormat.FOCUS)) >= MANDATORY
    assert all(re.fullmatch(r"(x_)?[A-Z][A-Za-z]+", name) for name in columns(ExportFormat.FOCUS))
    for row in (gpu, disk):
        assert {name for name in MANDATORY if not row[name]} == {"ChargeClass"}
        product = Decimal(row["PricingQuantity"]) * Decimal(row["ListUnitPrice"])
        assert abs(product - Decimal(row["ListCost"])) < Decimal("1e-9")
    assert (gpu["BilledCost"], gpu["PricingQuantity"], gpu["PricingUnit"]) == ("0.18", "1", "GPU-Hours")
    assert (gpu["ChargePeriodStart"], gpu["ChargePeriodEnd"]) == ("2026-11-30T22:15:30Z", "2026-11-30T22:45:30Z")
    assert (gpu["BillingPeriodStart"], gpu["BillingPeriodEnd"]) == ("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")
    assert (gpu["PricingCategory"], disk["PricingCategory"]) == ("Dynamic", "Standard")
    assert (disk["PricingUnit"], disk["ServiceCategory"], disk["x_InstanceId"]) == ("GB-Hours", "Storage", "")
    assert json.loads(gpu["Tags"]) == {"team": "vision"}


def test_csv_has_everything_that_is_known_of_a_span() -> None:
    """Amounts are exact, and without an exponent."""
    (row,) = _read(ExportFormat.CSV, GPU)

    assert row == {
        "day": "2026-11-30",
        "from": "2026-11-30T22:15:30Z",
        "to": "2026-11-30T22:45:30Z",
        "instanceId": "inst_1",
        "name": "trainer",
        "novitaInstanceId": "5be2c7d10f9a4436",
        "createdBy": "olga",
        "productName": "RTX 4090 24GB",
        "region": "CN-HK-01",
        "billingMode": "spot",
        "kind": "gpu",
        "cause": "serving",
        "quantity": "2",
        "usdPerUnitHour": "0.18",
        "unitHours": "1",
        "usd": "0.18",
        "low": "0.179",
        "high": "0.1815",
        "estimated": "false",
        "labels": '{"team":"vision"}',
    }


@pytest.mark.parametrize("chosen", list(ExportFormat))
def test_a_span_shorter_than_a_second_has_an_end_after_its_start(chosen: ExportFormat) -> None:
    """Both times are in whole seconds, and the end is exclusive."""
    (row,) = _read(chosen, replace(GPU, ends_at=START + timedelta(milliseconds=3), cost=Cost()))

    first, last = ("from", "to") if chosen is ExportFormat.CSV else ("ChargePeriodStart", "ChargePeriodEnd")
    assert (row[first], row[last]) == ("2026-11-30T22:15:30Z", "2026-11-30T22:15:31Z")


_HOSTILE = st.text(st.sampled_from("=+-@\t\r\n;,|\"' a1\uff1d\u2028")) | st.text()


@pytest.mark.parametrize("chosen", list(ExportFormat))
@given(text=_HOSTILE)
def test_no_cell_begins_a_formula_however_a_spreadsheet_splits_the_line(chosen: ExportFormat, text: str) -> None:
    """Also where it splits at semicolons or tabs and knows no quotes; the number of cells and lines stays."""
    texts: dict[str, Any] = dict.fromkeys(
        ("instance_id", "instance_name", "provider_id", "product_name", "region", "billing_mode", "created_by"), text
    )
    written = lines(chosen, [replace(GPU, **texts, labels={"k": text})], text)

    (row,) = csv.reader(io.StringIO(written, newline=""))
    assert len(row) == len(columns(chosen))
    assert written.count("\n") == 1
    for separator in (";", "\t", "|"):
        for part in written.rstrip("\r\n").split(separator)[1:]:
            assert not re.match('[" ]*[=+\\-@\uff1d]', part)
    for cell in row:
        assert not re.match("[\\s]*[=+\\-@\uff1d]", cell)
    labels = row[columns(chosen).index("labels" if chosen is ExportFormat.CSV else "Tags")]
    assert json.loads(labels) == {"k": text}
