"""Forecasts, against the definition: what has been spent at an instant when the rate stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from corral.domain.costs.forecast import LONGEST, cost_by, exhausted_at, month_of, used_up_at

TICK = timedelta(microseconds=1)
NOW = datetime(2026, 11, 17, 2, 30, tzinfo=UTC)
_AMOUNTS = st.fractions(min_value=0, max_value=10**12, max_denominator=86_400)
_INSTANTS = st.builds(datetime.fromtimestamp, st.integers(10**9, 4 * 10**9), st.timezones())


@given(_INSTANTS)
@example(datetime(2026, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))
@example(datetime(2028, 2, 29, tzinfo=UTC))
def test_a_month_has_every_instant_in_it_and_is_followed_by_the_next(instant: datetime) -> None:
    """Every instant is in exactly one month, which starts on a first day at midnight in UTC."""
    month = month_of(instant)

    assert month.starts_at <= instant < month.ends_at
    assert month.starts_at == month.starts_at.replace(day=1, hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    assert month_of(month.ends_at).starts_at == month.ends_at
    assert month_of(month.ends_at - TICK) == month


@given(left=_AMOUNTS, per_hour=_AMOUNTS)
@example(left=Fraction(5000, 24), per_hour=Fraction(5000, 24))
@example(left=Fraction(10**12), per_hour=Fraction(1, 10_000))
def test_an_amount_is_used_up_at_the_first_instant_at_which_it_is_spent(left: Fraction, per_hour: Fraction) -> None:
    """One microsecond before, something is left; what is never or not soon used up has no such instant."""
    at = used_up_at(left, per_hour=per_hour, now=NOW)

    if at is None:
        assert cost_by(NOW + LONGEST, so_far=Fraction(0), per_hour=per_hour, now=NOW) < left
    else:
        assert cost_by(at, so_far=Fraction(0), per_hour=per_hour, now=NOW) >= left
        assert at == NOW or cost_by(at - TICK, so_far=Fraction(0), per_hour=per_hour, now=NOW) < left


@given(left=_AMOUNTS, per_hour=_AMOUNTS, hours=st.integers(0, 10_000))
def test_a_budget_that_is_reset_before_is_not_used_up(left: Fraction, per_hour: Fraction, hours: int) -> None:
    """With a reset the instant is the same as without one, or there is none."""
    resets_at = NOW + timedelta(hours=hours)
    never_reset = exhausted_at(left, per_hour=per_hour, now=NOW, resets_at=None)
    at = exhausted_at(left, per_hour=per_hour, now=NOW, resets_at=resets_at)

    assert never_reset == used_up_at(left, per_hour=per_hour, now=NOW)
    assert at == (never_reset if never_reset is not None and never_reset < resets_at else None)


@given(so_far=_AMOUNTS, per_hour=_AMOUNTS)
def test_the_cost_of_a_month_is_never_less_than_what_it_cost_already(so_far: Fraction, per_hour: Fraction) -> None:
    """And exactly that when nothing is billed."""
    at = month_of(NOW).ends_at
    assert cost_by(at, so_far=so_far, per_hour=per_hour, now=NOW) >= so_far
    assert cost_by(at, so_far=so_far, per_hour=Fraction(0), now=NOW) == so_far
    assert cost_by(NOW + timedelta(hours=2), so_far=so_far, per_hour=Fraction(3), now=NOW) == so_far + 6
