"""What Corral assumes about the bill."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from corral.domain.verification.evidence import AccountProbe, DiffersError, Evidence, NotSeenError, ProviderAnswer
from corral.domain.verification.json_values import Kind, kind_of, number, text, word, wrong_fields
from corral.domain.verification.judge import Check

LATEST_ROW: Final = timedelta(hours=3)
"""A running machine has a row that began after this: an hour, the making of the row, and one spare."""
UNITS_PER_USD: Final = 10_000
MOST_PRECISION: Final = 12
ROUNDING: Final = 1.0
"""Units by which an amount may be rounded."""
_ROW: Final[Mapping[str, Kind]] = {
    "startTime": Kind.NUMERIC,
    "endTime": Kind.NUMERIC,
    "category": Kind.TEXT,
    "ownerID": Kind.TEXT,
    "billNum0": Kind.NUMERIC,
    "basePrice0": Kind.NUMERIC,
    "discountPrice0": Kind.NUMERIC,
    "pricePrecision": Kind.NUMERIC,
    "amount": Kind.NUMERIC,
    "voucherAmount": Kind.NUMERIC,
    "payAmount": Kind.NUMERIC,
}
_DENIED: Final = frozenset({401, 403})
_HOUR: Final = 3600


def _fields(seen: Evidence) -> str:
    rows = _rows(seen)
    wrong = wrong_fields(rows, _ROW)
    if wrong:
        raise DiffersError("; ".join(wrong))
    return f"{len(_ROW)} fields of {len(rows)} rows"


def _numbers(seen: Evidence) -> str:
    kinds = {kind_of(row.get(name)) for row in _rows(seen) for name in ("startTime", "amount", "basePrice0")}
    if kinds != {"text"}:
        raise DiffersError(f"numbers are {', '.join(sorted(kinds))}")
    return "numbers are text"


def _category(seen: Evidence) -> str:
    rows = _rows(seen)
    others = sorted({word(row.get("category")) for row in rows if row.get("category") != "gpu"})
    if others:
        raise DiffersError(f"rows of {', '.join(others)} were given")
    return f"{len(rows)} rows of `gpu`"


def _end(seen: Evidence) -> str:
    spans = {_value(row, "endTime") - _value(row, "startTime") for row in _rows(seen)}
    if any((span + 1) % _HOUR for span in spans):
        raise DiffersError(f"a row of an hour lasts {min(spans):.0f} s, so that its end is not its last second")
    return "the end of a row is its last second"


def _decimals(seen: Evidence) -> str:
    if not all("amountDecimal" in row for row in _rows(seen)):
        raise DiffersError("rows have no `amountDecimal`")
    return "rows have `amountDecimal`"


def _decimal_unit(seen: Evidence) -> str:
    shown = [(exact, _value(row, "amount")) for row in _rows(seen) if (exact := number(row.get("amountDecimal")))]
    if not shown:
        raise NotSeenError("no row has an `amountDecimal` above 0")
    if any(abs(exact - whole) > ROUNDING for exact, whole in shown):
        raise DiffersError("`amountDecimal` is not `amount` with its fraction")
    return "`amountDecimal` is `amount` with its fraction"


def _unit(seen: Evidence) -> str:
    compared = 0
    for row in _rows(seen):
        precision = _value(row, "pricePrecision")
        if not 0 <= precision <= MOST_PRECISION:
            raise DiffersError("`pricePrecision` is not a number of digits")
        price = _value(row, "discountPrice0") / 10**precision
        usd = price * _value(row, "billNum0") / _HOUR
        compared += 1
        if abs(usd * UNITS_PER_USD - _value(row, "amount")) > ROUNDING:
            raise DiffersError("an amount is not price times cards and hours, in 1/10000 USD")
    return f"{compared} amounts are price times cards and hours, in 1/10000 USD"


def _late(seen: Evidence) -> str:
    received = _answer(seen).received_at
    began = received - 2 * LATEST_ROW
    running = [
        text(item.get("id"))
        for item in seen.items(AccountProbe.LIST, "instances")
        if item.get("status") == "running" and 0 < (number(item.get("lastStartedAt")) or 0) < began.timestamp()
    ]
    if not running:
        raise NotSeenError("no machine has been running for some hours")
    newest = dict.fromkeys(running, 0.0)
    for row in seen.items(AccountProbe.BILL, "bills"):
        if (owner := text(row.get("ownerID"))) in newest:
            newest[owner] = max(newest[owner], _value(row, "startTime"))
    late = [owner for owner, at in newest.items() if at < (received - LATEST_ROW).timestamp()]
    if late:
        raise DiffersError(f"{len(late)} of {len(running)} running machines have no row of the last three hours")
    return f"{len(running)} running machines have a row of the last three hours"


def _trial(seen: Evidence) -> str:
    past = seen.past_trial
    if past is None:
        raise NotSeenError("needs --spend")
    _answer(seen)
    units = [
        _value(row, "amount")
        for row in seen.items(AccountProbe.BILL, "bills")
        if row.get("ownerID") == past.provider_id
    ]
    if not units:
        raise NotSeenError("the bill does not show the trial machine yet: run `corral verify` again in an hour or two")
    usd, most = sum(units) / UNITS_PER_USD, past.micro_usd / 1_000_000 * past.seconds / _HOUR
    if usd > most + len(units) * ROUNDING / UNITS_PER_USD:
        raise DiffersError(f"${usd:.4f} for a machine that existed for {past.seconds:.0f} s, at most ${most:.4f}")
    return f"${usd:.4f} for a machine that existed for {past.seconds:.0f} s, at most ${most:.4f}"


def _answer(seen: Evidence) -> ProviderAnswer:
    answer = seen.answer(AccountProbe.BILL)
    if answer.status in _DENIED:
        raise NotSeenError("the key may not read the bill")
    return answer


def _rows(seen: Evidence) -> list[Mapping[str, object]]:
    _answer(seen)
    found = seen.items(AccountProbe.BILL, "bills")
    if not found:
        raise NotSeenError("the bill has no row of the last day")
    return found


def _value(row: Mapping[str, object], name: str) -> float:
    found = number(row.get(name))
    if found is None:
        raise DiffersError(f"`{name}` is not a number")
    return found


CHECKS: Final = (
    Check(
        id="bill.fields",
        assumes="a row of the bill has its period, category, owner, price and amounts",
        otherwise="a row without a time or an amount is counted as unreadable, and the day compared again later",
        copes=False,
        judge=_fields,
    ),
    Check(
        id="bill.numbers",
        assumes="numbers of the bill are text",
        otherwise="numbers are read as well",
        judge=_numbers,
    ),
    Check(
        id="bill.category",
        assumes="the bill can be asked for by category, and rows of GPUs have the category `gpu`",
        otherwise="rows that are not of GPUs are taken for disks: the reconciliation finds usage without a bill",
        copes=False,
        judge=_category,
    ),
    Check(
        id="bill.end",
        assumes="the end of a row is its last second",
        otherwise="nothing: only the start of a row is used",
        judge=_end,
    ),
    Check(
        id="bill.decimals",
        assumes="rows also have the exact amount, which is undocumented",
        otherwise="amounts may be off by 1/10000 USD for each row, and are compared so",
        judge=_decimals,
    ),
    Check(
        id="bill.decimal_unit",
        assumes="the exact amount is in 1/10000 USD",
        otherwise="the unit that agrees with the whole amount is taken: 1/10000 USD or USD",
        judge=_decimal_unit,
    ),
    Check(
        id="bill.unit",
        assumes="the amount of a row is price times cards and hours, in 1/10000 USD",
        otherwise="Corral's costs and the bill disagree by a factor: the reconciliation of every day says so",
        copes=False,
        judge=_unit,
    ),
    Check(
        id="bill.late",
        assumes="the bill shows a running machine within three hours",
        otherwise="the reconciliation of a day reports missing rows until they appear",
        judge=_late,
    ),
    Check(
        id="bill.trial",
        assumes="a machine is billed for no longer than it exists",
        otherwise="Corral's costs are too low; the reconciliation of the day says so",
        copes=False,
        judge=_trial,
    ),
)
