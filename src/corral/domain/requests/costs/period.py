"""The query of costs: a period and a grouping."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from corral.domain.costs.forecast import month_of
from corral.domain.costs.totals import CostGrouping, GroupBy
from corral.domain.errors import FieldProblem, SpecInvalidError
from corral.domain.requests.fields import Problems, problem
from corral.domain.requests.labels import is_label_key

MOST_GROUPS: Final = 10_000
LONGEST_TIME: Final = 40
"""Characters of a time; ISO 8601 needs 32."""
LONGEST_GROUPING: Final = 70
"""Characters of `groupBy`; a label's key has at most 63."""
_LABEL: Final = "label:"
_PLAIN: Final = {each.value: each for each in CostGrouping if each is not CostGrouping.LABEL}
_FIRST_YEAR, _LAST_YEAR = 1970, 9000
"""Beyond these, months could not be computed; nothing was billed before the first."""
_TIME_RULE: Final = "must be a day or a time in ISO 8601, such as 2026-11-17 or 2026-11-17T18:00:00Z"
_GROUPING_RULE: Final = f"must be one of {', '.join(_PLAIN)}, or {_LABEL}NAME with the key of a label"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRequest:
    """Which costs are requested."""

    since: datetime | None = None
    """None: the beginning of the month."""
    until: datetime | None = None
    """None: now."""
    group_by: GroupBy | None = None
    limit: int = 1000
    """The most groups."""
    per_day: bool = False
    """Whether each group is split into days, too."""

    def period(self, now: datetime) -> tuple[datetime, datetime]:
        """From when to when; raises SpecInvalidError if it would begin after *now*, where it ends."""
        until = now if self.until is None else self.until
        # The first instant of a month ends the month before.
        since = month_of(until - timedelta(microseconds=1)).starts_at if self.since is None else self.since
        if since > until:
            raise SpecInvalidError(
                [problem("from", "INVALID_QUERY", "must not be after `to`, which is now if left out")]
            )
        return since, until


def read_cost_request(
    since: str | None, until: str | None, group_by: str | None, limit: int = 1000, *, per_day: bool = False
) -> CostRequest | Problems:
    """The request in the parameters `from`, `to` and `groupBy`; or every problem with them."""
    problems: list[FieldProblem] = []
    times: dict[str, datetime | None] = {"from": None, "to": None}
    for name, text in (("from", since), ("to", until)):
        if text is not None:
            times[name] = _instant(text)
            if times[name] is None:
                problems.append(problem(name, "INVALID_QUERY", _TIME_RULE))
    first, last = times["from"], times["to"]
    if first is not None and last is not None and first > last:
        problems.append(problem("from", "INVALID_QUERY", "must not be after `to`"))
    grouping = None if group_by is None else _grouping(group_by)
    if group_by is not None and grouping is None:
        problems.append(problem("groupBy", "INVALID_QUERY", _GROUPING_RULE))
    if per_day and (group_by is None or group_by == CostGrouping.DAY):
        problems.append(problem("perDay", "INVALID_QUERY", "needs a `groupBy` other than day"))
    if problems:
        return tuple(problems)
    return CostRequest(since=first, until=last, group_by=grouping, limit=limit, per_day=per_day)


def _instant(text: str) -> datetime | None:
    """The instant that *text* names, in UTC unless it says otherwise; None if it names none."""
    try:
        found = datetime.fromisoformat(text.strip())
        at = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return at if _FIRST_YEAR <= at.year <= _LAST_YEAR else None


def _grouping(text: str) -> GroupBy | None:
    if text in _PLAIN:
        return GroupBy(grouping=_PLAIN[text])
    key = text.removeprefix(_LABEL)
    is_label = text.startswith(_LABEL) and is_label_key(key)
    return GroupBy(grouping=CostGrouping.LABEL, label=key) if is_label else None
