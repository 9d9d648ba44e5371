"""
The provider's calls on money: the balance, the bill, subscriptions and invoices.

Amounts are whole numbers of 1/10000 USD, not of the catalog's unit; what such a number loses is in the undocumented
fields `amountDecimal`, `voucherAmountDecimal` and `payableDecimal`. Prices are in 10^-pricePrecision USD: of a GPU for
an hour, of a GB for a day. `billNum0` is GPUs or GB times seconds. Which names the rows of subscriptions and invoices
have is not known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from fractions import Fraction

from novitasim.api.call import Call, Reply, Route, answer, page
from novitasim.api.create_request import invalid
from novitasim.api.refusal import RefusalError
from novitasim.api.wire import Json
from novitasim.settings import Settings
from novitasim.world.billing import bills, charges
from novitasim.world.billing.bills import Row
from novitasim.world.billing.charges import DAY_SECONDS, Kind
from novitasim.world.world import World

_BASE = "/openapi/v1/billing"
# What the balance call shows for an account with unlimited money.
_ENDLESS_USD = 10_000
_PRICE_PRECISION = 5
_GPU, _STORAGE, _SUMMARY = "gpu", "cloud_storage", "summary"
_MOST_SECONDS = 2**40


def balance(call: Call) -> Reply:
    """GET /openapi/v1/billing/balance/detail: text in 1/10000 USD, not in the catalog's unit."""
    had = Fraction(call.world.settings.balance_usd or _ENDLESS_USD)
    spent = charges.total(charges.of_account(call.world, call.now))
    settled = bills.settled_usd(call.world, call.now)
    return answer(
        {
            "availableBalance": str(round((had - spent) * 10_000)),
            "cashBalance": str(round((had - settled) * 10_000)),
            "creditLimit": "0",
            "pendingCharges": str(round((spent - settled) * 10_000)),
            "outstandingInvoices": "0",
        }
    )


def bill_list(call: Call) -> Reply:
    """GET /openapi/v1/billing/bill/list: rows by cycle, without pages."""
    query, world = call.query, call.world
    cycle, category = query.get("cycleType") or "Hour", query.get("productCategory", "")
    if cycle not in bills.CYCLES:
        raise RefusalError("INVALID_BILL_CYCLE", f"invalid cycleType: {cycle}")
    if category not in {"", _GPU, _STORAGE, _SUMMARY}:
        raise RefusalError("INVALID_PRODUCT_CATEGORY", f"invalid productCategory: {category}")
    until = _instant(call, "endTime", int(call.now))
    since = _instant(call, "startTime", until - DAY_SECONDS)
    limit = world.settings.bill_days_limit * DAY_SECONDS
    if since > until or (limit and until - since > limit):
        raise invalid(f"invalid startTime: the period must not be longer than {world.settings.bill_days_limit} days")
    owner = query.get("ownerId", "") if world.settings.bill_owner_filter else ""
    wanted = category if world.settings.bill_category_filter else ""
    found = [
        row
        for row in bills.rows(world, call.now, cycle=cycle, since=since, until=until)
        if (not owner or row.owner == owner) and wanted in {"", _SUMMARY, _category(world, row)}
    ]
    if category == _SUMMARY:
        return answer({"bills": _summary(world.settings, found)})
    return answer({"bills": [_row(world, row) for row in found]})


def subscription_list(call: Call) -> Reply:
    """GET /openapi/v1/billing/bill/monthly/list: the instances that were paid by the month."""
    settings, products = call.world.settings, call.world.catalog.products
    return answer(
        {
            "bills": [
                {
                    "startTime": _number(settings, int(item.begin)),
                    "endTime": _number(settings, int(item.end)),
                    "productName": products[item.instance.order.product_id].name,
                    "productId": item.instance.order.product_id,
                    "category": _GPU,
                    "ownerID": item.instance.id,
                }
                | _amounts(settings, item.usd)
                for item in bills.subscriptions(call.world)
            ]
        }
    )


def invoice_list(call: Call) -> Reply:
    """GET /openapi/v1/billing/monthly/bill: one invoice for each month from `startMonth` on, the latest first."""
    first = call.query.get("startMonth", "")
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])|", first):
        raise invalid("invalid startMonth: must be YYYY-MM")
    rows = bills.rows(call.world, call.now, cycle="Month", since=0, until=int(call.now))
    usd: dict[str, Fraction] = {}
    for row in rows:
        name = datetime.fromtimestamp(row.begin, UTC).strftime("%Y-%m")
        usd[name] = usd.get(name, Fraction(0)) + row.usd
    this_month = datetime.fromtimestamp(call.now, UTC).strftime("%Y-%m")
    found = [
        {"month": name, "status": "open" if name == this_month else "paid"} | _amounts(call.world.settings, usd[name])
        for name in sorted(usd, reverse=True)
        if name >= first
    ]
    part = page(call, base=1, number_name="page")
    return answer({"bills": found[part.first : part.first + part.count], "total": len(found)})


def _row(world: World, row: Row) -> Json:
    product_id, product_name = _product(world, row)
    return _shape(
        world.settings,
        row,
        {
            "productName": product_name,
            "productId": product_id,
            "category": _category(world, row),
            "ownerID": row.owner,
            "billNum0": _number(world.settings, round(row.quantity)),
            "basePrice0": _number(world.settings, round(row.unit_e5)),
            "discountPrice0": _number(world.settings, round(row.unit_e5)),
            "pricePrecision": _PRICE_PRECISION,
        },
        row.usd,
    )


def _summary(settings: Settings, rows: Iterable[Row]) -> list[Json]:
    """One row for each period, over all owners and categories."""
    sums: dict[tuple[int, int], Fraction] = {}
    shown: dict[tuple[int, int], Row] = {}
    for row in rows:
        period = (row.begin, row.end)
        sums[period] = sums.get(period, Fraction(0)) + row.usd
        shown[period] = row
    return [_shape(settings, shown[each], {"category": _SUMMARY, "ownerID": ""}, sums[each]) for each in sorted(sums)]


def _shape(settings: Settings, row: Row, fields: Json, usd: Fraction) -> Json:
    end = row.end - 1 if settings.bill_end == "inclusive" else row.end
    times: Json = {"startTime": _number(settings, row.begin), "endTime": _number(settings, end)}
    return times | fields | _amounts(settings, usd)


def _amounts(settings: Settings, usd: Fraction) -> Json:
    """The amounts of a row: whole numbers, and exact ones if the settings have them."""
    voucher = usd * settings.voucher_percent / 100
    parts = {"amount": usd, "voucherAmount": voucher, "payAmount": usd - voucher}
    shown: Json = {name: _number(settings, _rounded(settings, part * 10_000)) for name, part in parts.items()}
    if settings.bill_decimals:
        scale = 1 if settings.bill_decimal_unit == "usd" else 10_000
        for name, part in zip(("amountDecimal", "voucherAmountDecimal", "payableDecimal"), parts.values(), strict=True):
            shown[name] = f"{float(part * scale):.10f}".rstrip("0").rstrip(".")
    return shown


def _rounded(settings: Settings, amount: Fraction) -> int:
    match settings.bill_rounding:
        case "up":
            return math.ceil(amount)
        case "nearest":
            return round(amount)
        case _:
            return math.floor(amount)


def _number(settings: Settings, value: int) -> str | int:
    return str(value) if settings.bill_numbers == "string" else value


def _category(world: World, row: Row) -> str:
    match row.kind:
        case Kind.GPU:
            return _GPU
        case Kind.DISK:
            return world.settings.bill_disk_category
        case Kind.STORAGE:
            return _STORAGE


def _product(world: World, row: Row) -> tuple[str, str]:
    match row.kind:
        case Kind.GPU:
            product_id = world.instances[row.owner].order.product_id
            product = world.catalog.products.get(product_id) or world.catalog.cpu_products[product_id]
            return product_id, product.name
        case Kind.DISK:
            return "rootfs", "Container disk"
        case Kind.STORAGE:
            return "network-storage", "Network storage"


def _instant(call: Call, name: str, default: int) -> int:
    raw = call.query.get(name, "")
    if not raw:
        return default
    if not raw.isascii() or not raw.isdecimal() or int(raw) > _MOST_SECONDS:
        raise invalid(f"invalid {name}: must be unix seconds")
    return int(raw)


ROUTES = (
    Route("balance", "GET", f"{_BASE}/balance/detail", balance),
    Route("bills", "GET", f"{_BASE}/bill/list", bill_list, is_paced=True),
    Route("subscriptions", "GET", f"{_BASE}/bill/monthly/list", subscription_list, is_paced=True),
    Route("invoices", "GET", f"{_BASE}/monthly/bill", invoice_list, is_paced=True),
)
