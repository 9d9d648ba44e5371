"""Which days are due, and until when a day is tried again."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from corral.domain.costs.reconciled_days import BILL_LAG, LAST_RETRY, RETRY, due_days, period, retry_at, yesterday
from corral.domain.costs.reconciliation import Amounts, BillOutcome, Reconciliation

DAY = date(2030, 1, 31)
END = datetime(2030, 2, 1, tzinfo=UTC)


def result(*, missing: int = 0, unreadable: int = 0) -> Reconciliation:
    return Reconciliation(
        day=DAY,
        usage=Amounts(),
        billed=0,
        other=0,
        paid=None,
        counts={BillOutcome.MISSING_BILL: missing},
        machines=(),
        unreadable=unreadable,
    )


def test_a_day_is_due_once_its_bill_should_be_complete() -> None:
    def due(after: timedelta) -> list[date]:
        return due_days(END + after, first=DAY, retries={})

    assert due(BILL_LAG - timedelta(microseconds=1)) == []
    assert due(BILL_LAG) == [DAY]
    assert due(timedelta(days=1)) == [DAY]
    assert due(timedelta(days=1) + BILL_LAG) == [DAY, date(2030, 2, 1)]


def test_missed_days_are_due_for_a_week_but_none_before_the_first_usage() -> None:
    now = END + timedelta(days=20) + BILL_LAG

    assert due_days(now, first=DAY, retries={}) == [date(2030, 2, day) for day in range(14, 21)]
    assert due_days(now, first=date(2030, 2, 19), retries={}) == [date(2030, 2, 19), date(2030, 2, 20)]


def test_an_attempted_day_is_due_when_it_is_to_be_tried_again() -> None:
    def due(retry: datetime | None) -> list[date]:
        return due_days(END + timedelta(hours=5), first=DAY, retries={DAY: retry})

    assert due(None) == []
    assert due(END + timedelta(hours=5)) == [DAY]
    assert due(END + timedelta(hours=5, microseconds=1)) == []


def test_a_complete_bill_is_read_once_and_any_other_until_it_is_too_old() -> None:
    now = END + BILL_LAG

    assert retry_at(DAY, result(), now) is None
    for incomplete in (None, result(missing=1), result(unreadable=1)):
        assert retry_at(DAY, incomplete, now) == now + RETRY
        assert retry_at(DAY, incomplete, END + LAST_RETRY - RETRY) == END + LAST_RETRY
        assert retry_at(DAY, incomplete, END + LAST_RETRY) is None


def test_days_are_those_of_utc() -> None:
    late = datetime(2030, 2, 1, 1, tzinfo=UTC).astimezone(tz=None)

    assert yesterday(late) == DAY
    assert period(DAY) == (END - timedelta(days=1), END)
