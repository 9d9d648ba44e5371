"""
Ways in which the provider fails, by name, and when each applies.

Which faults apply to a call is a pure function of the rules, the facts of the call and the dice. `injection.py` carries
them out on the connection, `world/spot.py` on an instance. At most one fault that ends a call applies; latency and harm
to an instance may come with it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """Every fault there is."""

    REFUSE = "refuse"
    ERROR_500 = "error_500"
    UNAUTHORIZED = "unauthorized"
    THROTTLE = "throttle"
    IGNORE = "ignore"
    DENY = "deny"
    HTML = "html"
    HANG = "hang"
    LOST_REPLY = "lost_reply"
    CREATED_500 = "500_but_created"
    GARBAGE = "garbage"
    TRUNCATED = "truncated"
    WRONG_SHAPE = "wrong_shape"
    ENDLESS_BODY = "endless_body"
    HUGE_BODY = "huge_body"
    GZIP_BOMB = "gzip_bomb"
    LATENCY = "latency"
    LIST_LAG = "list_lag"
    VANISH = "vanish"
    STATUS_ERROR = "status_error"
    FREEZE = "freeze"
    SPOT_NOTICE = "spot_notice"
    SPOT_RECLAIM = "spot_reclaim"


MEANING: Mapping[Fault, str] = {
    Fault.REFUSE: "the connection is closed at once; nothing is done",
    Fault.ERROR_500: "HTTP 500; nothing is done",
    Fault.UNAUTHORIZED: "HTTP 401, whatever the key; nothing is done",
    Fault.THROTTLE: "HTTP 429, with Retry-After as `retry_after` says (none, seconds, date); nothing is done",
    Fault.IGNORE: "the answer says that it was done (an empty object); nothing is done",
    Fault.DENY: "HTTP 400 with the reason REQUEST and `message`; nothing is done",
    Fault.HTML: "HTTP 403 with the front's HTML page instead of JSON; nothing is done",
    Fault.HANG: "no answer until the client leaves, at most `seconds` (120); done first if `done` is true",
    Fault.LOST_REPLY: "the call is done, then the connection is dropped without an answer",
    Fault.CREATED_500: "the call is done, then HTTP 500",
    Fault.GARBAGE: "the call is done; the answer is not JSON",
    Fault.TRUNCATED: "the call is done; the connection breaks off in the middle of the JSON",
    Fault.WRONG_SHAPE: "the call is done; the answer is JSON of another shape",
    Fault.ENDLESS_BODY: "the call is done; the answer never ends, until the client leaves",
    Fault.HUGE_BODY: "the call is done; the answer is 1 GiB long",
    Fault.GZIP_BOMB: "the call is done; the answer is 256 KiB of gzip that hold 256 MiB",
    Fault.LATENCY: "the answer (whatever it is) comes `seconds` (1) later",
    Fault.LIST_LAG: "the instance is missing in the list for `seconds` (30), though get shows it",
    Fault.VANISH: "the instance is denied: for `seconds` and still billed, or for good if 0",
    Fault.STATUS_ERROR: "the instance gets a statusError with `message` after `seconds` (0) and stays where it is",
    Fault.FREEZE: "the instance is `freezing` for `seconds` (30), then as before; still billed",
    Fault.SPOT_NOTICE: "the spot instance gets notice: its machine is reclaimed in `seconds` (spot_notice_seconds)",
    Fault.SPOT_RECLAIM: "the spot instance's machine is taken back",
}

BEFORE = frozenset(
    {Fault.REFUSE, Fault.ERROR_500, Fault.UNAUTHORIZED, Fault.THROTTLE, Fault.IGNORE, Fault.DENY, Fault.HTML}
)
HARMS = frozenset(
    {Fault.LIST_LAG, Fault.VANISH, Fault.STATUS_ERROR, Fault.FREEZE, Fault.SPOT_NOTICE, Fault.SPOT_RECLAIM}
)
JOINING = HARMS | {Fault.LATENCY}

ANY = "*"
_RETRY_AFTER = ("none", "seconds", "date")


class FaultError(ValueError):
    """A fault was asked for in a way that is not understood; the message says what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A fault, the calls it strikes, and how often."""

    fault: Fault
    on: str = ANY
    count: int | None = 1
    probability: float = 1.0
    name: str = ""
    seconds: float | None = None
    retry_after: str | None = None
    done: bool = False
    message: str = "simulated failure"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a rule may look at: which call it is and the name of the instance it is about, if any."""

    endpoint: str
    name: str = ""


def strike(rules: Iterable[Rule], facts: Facts, roll: Callable[[], float]) -> tuple[list[Rule], list[Rule]]:
    """The rules that strike this call, and the rules that are left for the next."""
    struck: list[Rule] = []
    left: list[Rule] = []
    ended = False
    for rule in rules:
        joins = rule.fault in JOINING
        hit = _applies(rule, facts) and (joins or not ended) and (rule.probability >= 1 or roll() < rule.probability)
        if not hit:
            left.append(rule)
            continue
        ended = ended or not joins
        struck.append(rule)
        if rule.count is None:
            left.append(rule)
        elif rule.count > 1:
            left.append(dataclasses.replace(rule, count=rule.count - 1))
    return struck, left


def read(raw: Mapping[str, object], endpoints: Iterable[str]) -> Rule:
    """The rule that a request describes; raises FaultError with what is accepted."""
    fields = {field.name for field in dataclasses.fields(Rule)}
    unknown = set(raw) - fields
    if unknown:
        raise FaultError(f"a fault has no {', '.join(sorted(unknown))}; it has: {', '.join(sorted(fields))}")
    try:
        fault = Fault(str(raw.get("fault")))
    except ValueError:
        raise FaultError(f"no fault is called {raw.get('fault')!r}; there are: {', '.join(Fault)}") from None
    default_on = "create" if fault is Fault.LIST_LAG else ANY
    on = str(raw.get("on") or default_on)
    known = sorted(set(endpoints))
    if on != ANY and on not in known:
        raise FaultError(f"no call is named {on!r}; there are: {ANY}, {', '.join(known)}")
    return Rule(
        fault=fault,
        on=on,
        count=_count(raw.get("count", 1)),
        probability=_number(raw.get("probability", 1.0), "probability", most=1.0),
        name=_pattern(raw.get("name", "")),
        seconds=None if raw.get("seconds") is None else _number(raw["seconds"], "seconds"),
        retry_after=_retry_after(raw.get("retry_after")),
        done=raw.get("done") is True,
        message=str(raw.get("message") or "simulated failure"),
    )


def _applies(rule: Rule, facts: Facts) -> bool:
    if rule.on not in (ANY, facts.endpoint):
        return False
    return not rule.name or (bool(facts.name) and re.search(rule.name, facts.name) is not None)


def _count(raw: object) -> int | None:
    if raw is None:
        return None
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 1:
        raise FaultError(f"count cannot be {raw!r}; accepted: a whole number >= 1, or null for always")
    return raw


def _number(raw: object, name: str, most: float = 1e9) -> float:
    if isinstance(raw, bool) or not isinstance(raw, (int, float)) or not 0 <= raw <= most:
        raise FaultError(f"{name} cannot be {raw!r}; accepted: a number from 0 to {most:g}")
    return float(raw)


def _pattern(raw: object) -> str:
    try:
        return re.compile(str(raw)).pattern
    except re.error as error:
        raise FaultError(f"name cannot be {raw!r}; accepted: a regular expression ({error})") from error


def _retry_after(raw: object) -> str | None:
    if raw is not None and raw not in _RETRY_AFTER:
        raise FaultError(f"retry_after cannot be {raw!r}; accepted: {', '.join(_RETRY_AFTER)}")
    return None if raw is None else str(raw)
