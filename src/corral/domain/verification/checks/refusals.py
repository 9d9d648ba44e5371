"""What Corral assumes about refusals, clocks and rate limits."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

from corral.domain.verification.evidence import (
    MOST_SKEW,
    AccountProbe,
    DiffersError,
    Evidence,
    NotSeenError,
    ProviderAnswer,
)
from corral.domain.verification.json_values import Kind, mapping, number, text, word, wrong_fields
from corral.domain.verification.judge import Check

_NOT_FOUND: Final = frozenset({400, 404})
_UNAUTHORIZED: Final = 401
_THROTTLED: Final = 429
_RATE_HEADERS: Final = ("x-ratelimit-limit", "ratelimit-limit", "x-rate-limit-limit", "ratelimit", "ratelimit-policy")


def _unknown(seen: Evidence, probe: AccountProbe) -> str:
    answer = seen.answer(probe)
    if answer.status not in _NOT_FOUND:
        raise DiffersError(answer.problem)
    reason, message = text(mapping(answer.content).get("reason")), text(mapping(answer.content).get("message"))
    if not reason.endswith("NOT_FOUND") and "not foun" not in message.lower():
        raise DiffersError(f"{answer.problem}, without saying that it is not found")
    return answer.problem


def _not_found_status(seen: Evidence) -> str:
    answer = seen.answer(AccountProbe.UNKNOWN_INSTANCE)
    if answer.status != 400:  # noqa: PLR2004  # the documented one
        raise DiffersError(answer.problem)
    return answer.problem


def _shape(seen: Evidence) -> str:
    answer = seen.answer(AccountProbe.UNKNOWN_INSTANCE)
    if answer.is_success:
        raise NotSeenError("nothing was refused")
    wrong = wrong_fields([mapping(answer.content)], {"code": Kind.NUMERIC, "reason": Kind.TEXT, "message": Kind.TEXT})
    if wrong:
        raise DiffersError("; ".join(wrong))
    code = number(mapping(answer.content)["code"])
    if code != answer.status:
        raise DiffersError(f"`code` is {code:g}, and the status {answer.status}")
    return f"code, reason and message; `code` is the status {answer.status}"


def _wrong_key(seen: Evidence) -> str:
    answer = seen.answer(AccountProbe.WRONG_KEY)
    if answer.is_success:
        raise NotSeenError("every key is accepted here")
    if answer.status != _UNAUTHORIZED or not answer.is_json:
        raise DiffersError(answer.problem)
    return answer.problem


def _clock(seen: Evidence) -> str:
    timed = [answer for answer in seen.every if answer.provider_time is not None]
    if not timed:
        raise NotSeenError("no answer had a Date")
    ahead = min((_ahead(answer) for answer in timed), key=abs)
    if abs(ahead) > MOST_SKEW.total_seconds():
        raise DiffersError(f"our clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the provider's")
    return f"within {max(1, round(abs(ahead)))} s"


def _ahead(answer: ProviderAnswer) -> float:
    return 0.0 if answer.provider_time is None else (answer.received_at - answer.provider_time).total_seconds()


def _admitted(seen: Evidence) -> str:
    throttled = [answer for answer in seen.every if answer.status == _THROTTLED and not _is_of_bill(answer)]
    if throttled:
        raise DiffersError(f"{len(throttled)} of {len(seen.every)} calls were answered with 429")
    return f"all of {len(seen.every)} calls were admitted"


def _is_of_bill(answer: ProviderAnswer) -> bool:
    """Whether it says that the bill was read too often, which is another limit."""
    return mapping(answer.content).get("reason") == "LIST_BILL_TOO_FAST"


def _retry_after(seen: Evidence) -> str:
    throttled = [answer for answer in seen.every if answer.status == _THROTTLED]
    if not throttled:
        raise NotSeenError("no call was throttled")
    for answer in throttled:
        header = answer.headers.get("retry-after")
        if header is None:
            raise DiffersError("429 without Retry-After")
        if number(header) is None and not _is_date(header):
            raise DiffersError("429 with a Retry-After that is neither seconds nor a date")
    return f"{len(throttled)} answers with 429, each with Retry-After"


def _rate_headers(seen: Evidence) -> str:
    if not seen.every:
        raise NotSeenError("there was no answer")
    for answer in seen.every:
        for name in _RATE_HEADERS:
            if name in answer.headers:
                limit = number(answer.headers[name])
                shown = word(answer.headers[name]) if limit is None else f"{limit:g}"
                raise DiffersError(f"answers have the header {name}: {shown}")
    return f"none of {len(seen.every)} answers announced a limit"


def _is_date(header: str) -> bool:
    try:
        parsedate_to_datetime(header)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


CHECKS: Final = (
    Check(
        id="refusal.unknown_instance",
        assumes="an instance that does not exist is refused with 400 or 404, and the answer says that it is not found",
        otherwise="the lookup counts as failed, never as proof: deletes are repeated and not confirmed by it",
        copes=False,
        judge=lambda seen: _unknown(seen, AccountProbe.UNKNOWN_INSTANCE),
    ),
    Check(
        id="refusal.not_found_status",
        assumes="the status of that refusal is 400, as documented",
        otherwise="404 is read in the same way",
        judge=_not_found_status,
    ),
    Check(
        id="refusal.unknown_template",
        assumes="a template that does not exist is refused with 400 or 404, and the answer says that it is not found",
        otherwise="a request that names it gets the provider's refusal instead of TEMPLATE_NOT_FOUND",
        judge=lambda seen: _unknown(seen, AccountProbe.UNKNOWN_TEMPLATE),
    ),
    Check(
        id="refusal.shape",
        assumes="a refusal has code (the HTTP status), reason and message",
        otherwise="the status decides; a refusal without the other fields may come from a gateway and proves less",
        copes=False,
        judge=_shape,
    ),
    Check(
        id="refusal.wrong_key",
        assumes="a wrong key is refused with 401",
        otherwise="403 is read in the same way, if it has the provider's error shape",
        judge=_wrong_key,
    ),
    Check(
        id="clock.difference",
        assumes="our clock and the provider's are at most 60 s apart",
        otherwise="deadlines do not depend on it; times of the provider that are shown, and costs, are off by as much",
        copes=False,
        setting="the clock of this machine (NTP)",
        judge=_clock,
    ),
    Check(
        id="rate.admitted",
        assumes="some dozens of calls in a row are admitted",
        otherwise="calls wait as Retry-After says, else a second and longer, and the limit is learned",
        setting="NOVITA_RATE_LIMIT_PER_MINUTE",
        judge=_admitted,
    ),
    Check(
        id="rate.retry_after",
        assumes="a throttled call says in Retry-After when to call again",
        otherwise="the pause is chosen by Corral, and doubles",
        setting="NOVITA_RATE_LIMIT_PER_MINUTE",
        judge=_retry_after,
    ),
    Check(
        id="rate.headers",
        assumes="answers do not announce the rate limit",
        otherwise="the headers are not read: the limit is learned from throttled calls, unless it is set",
        setting="NOVITA_RATE_LIMIT_PER_MINUTE",
        judge=_rate_headers,
    ),
)
