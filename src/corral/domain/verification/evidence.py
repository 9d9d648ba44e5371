"""
The answers of one account, as the checks read them.

`Evidence` raises NotSeenError where the account has nothing to show, and DiffersError where an answer is not even of
the form that a check needs; `judge.py` turns both into findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from corral.domain.verification import json_values
from corral.domain.verification.json_values import Kind, mapping, word


class NotSeenError(Exception):
    """Nothing in the account shows whether the assumption holds; the text says why."""


class DiffersError(Exception):
    """The assumption does not hold; the text says what was seen instead."""


class AccountProbe(StrEnum):
    """The calls that read an account, by what they show."""

    CLUSTERS = "clusters"
    PRODUCTS = "products"
    SPOT_PRODUCTS = "spot products"
    CLUSTER_PRODUCTS = "products of one cluster"
    TEMPLATES = "official templates"
    TEMPLATES_PAGE_0 = "page 0 of one template"
    TEMPLATES_PAGE_1 = "page 1 of one template"
    TEMPLATE = "one template"
    AUTHS = "registry logins"
    VOLUMES_PAGE_0 = "page 0 of one volume"
    VOLUMES_PAGE_1 = "page 1 of one volume"
    UNKNOWN_INSTANCE = "an instance that does not exist"
    UNKNOWN_TEMPLATE = "a template that does not exist"
    WRONG_KEY = "a call with a wrong key"
    BALANCE = "the balance"
    BILL = "the bill of the last day"
    LIST = "the list"
    LIST_PAGE_0 = "page 0 of one instance"
    LIST_PAGE_1 = "page 1 of one instance"
    BY_NAME = "the list by a whole name"
    BY_NAME_START = "the list by the start of a name"
    BY_NO_NAME = "the list by a name that no instance has"
    BY_STATUS = "the list by a status"
    INSTANCE = "one instance"
    METRICS = "metrics of one instance"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAnswer:
    """One answer of the provider, unread. It may contain passwords."""

    received_at: datetime
    """By our clock."""
    status: int | None
    """None without an answer."""
    asked: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The parameters of the call."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """By their names in lower case."""
    content: object = field(default=None, repr=False)
    """The JSON; None if there was none."""
    is_json: bool = False
    provider_time: datetime | None = None
    """By the provider's clock, to the second."""
    failure: str = ""
    """Why there is no answer."""

    @property
    def is_success(self) -> bool:
        """Whether the call was carried out."""
        return self.status is not None and 200 <= self.status < 300  # noqa: PLR2004  # the range HTTP gives

    @property
    def problem(self) -> str:
        """How a refusal reads: its status, and its reason if that is one word."""
        if self.status is None:
            return f"no answer ({self.failure})"
        reason = mapping(self.content).get("reason")
        shown = "" if reason is None else f", reason {word(reason)}"
        return f"HTTP {self.status}{shown}{'' if self.is_json else ' without JSON'}"


class Stage(StrEnum):
    """What the trial machine was doing when it was looked at."""

    BOOT = "create"
    STOP = "stop"
    START = "start"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the trial machine, so many seconds after the call of its stage was sent."""

    stage: Stage
    seconds: float
    got: ProviderAnswer = field(repr=False)
    """The lookup by its id."""
    listed: Mapping[str, object] | None = field(default=None, repr=False)
    """Its item in the list; None if the list lacks it."""
    by_name: bool | None = None
    """Whether the name filter found it; None if that was not tried."""

    @property
    def status(self) -> str:
        """The provider's word; empty if the lookup failed."""
        return json_values.text(mapping(self.got.content).get("status")) if self.got.is_success else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What was seen of a machine that was created to be measured; parts that were not tried are None."""

    name: str = field(repr=False)
    sent_at: datetime
    """When the create was sent, by our clock."""
    refused: ProviderAnswer | None = None
    """The create of a product that does not exist."""
    left_by_refusal: bool = False
    """Whether that created a machine."""
    created: ProviderAnswer | None = None
    provider_id: str | None = field(default=None, repr=False)
    started_twice: ProviderAnswer | None = None
    """A start of the machine while it was running."""
    stopped: ProviderAnswer | None = None
    started: ProviderAnswer | None = None
    deleted: ProviderAnswer | None = None
    looks: tuple[Look, ...] = ()
    gone_seconds: float | None = None
    """From the delete until a lookup said that it is gone."""
    listed_after: Mapping[str, object] | None = field(default=None, repr=False)
    """Its item in the list after that; None if the list lacks it."""

    def at(self, stage: Stage) -> tuple[Look, ...]:
        """The looks of one stage, in their order."""
        return tuple(look for look in self.looks if look.stage is stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTrial:
    """The last trial machine, whose bill comes later."""

    provider_id: str = field(repr=False)
    micro_usd: int
    """Per hour."""
    sent_at: datetime
    gone_at: datetime

    @property
    def seconds(self) -> float:
        """How long it existed at most."""
        return (self.gone_at - self.sent_at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The settings that are compared with the account."""

    regions: tuple[str, ...]
    """DEFAULT_REGION and CORRAL_REGIONS."""
    settle: timedelta
    """How long a new machine may be missing in the list."""


MOST_SKEW: Final = timedelta(seconds=60)
"""Clocks further apart than this differ: receivers of webhooks refuse signatures some minutes old, and times of the
provider narrow what a machine cost. Smaller, and the second's resolution of a header and a slow answer count."""


_NOTHING: Final[Mapping[AccountProbe, str]] = {
    AccountProbe.CLUSTER_PRODUCTS: "there is no cluster",
    AccountProbe.TEMPLATE: "there is no official template",
    AccountProbe.METRICS: "the account has no running instance",
}
"""Why a probe was not sent, if it is not for want of an instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that was read."""

    answers: Mapping[AccountProbe, ProviderAnswer]
    every: tuple[ProviderAnswer, ...]
    """All answers in their order, those of repeated calls and of the trial too."""
    expected: Expected
    trial: Trial | None = None
    past_trial: PastTrial | None = None
    """This run's, or that of an earlier run."""

    def answer(self, probe: AccountProbe) -> ProviderAnswer:
        """The answer to *probe*; raises NotSeenError if it was not sent or not answered."""
        found = self.answers.get(probe)
        if found is None:
            raise NotSeenError(_NOTHING.get(probe, "the account has no instance"))
        if found.status is None or found.status >= 500 or found.status == 429:  # noqa: PLR2004  # says nothing of the form
            raise NotSeenError(f"{probe.value}: {found.problem}")
        return found

    def content(self, probe: AccountProbe) -> Mapping[str, object]:
        """The object that *probe* was answered with; raises DiffersError if it was refused, or is no object."""
        found = self.answer(probe)
        if not found.is_success:
            raise DiffersError(f"{probe.value}: {found.problem}")
        if not found.is_json or not isinstance(found.content, dict):
            raise DiffersError(f"{probe.value}: {json_values.kind_of(found.content) if found.is_json else 'not JSON'}")
        return mapping(found.content)

    def items(self, probe: AccountProbe, key: str) -> list[Mapping[str, object]]:
        """The objects in the array *key* of the answer; raises DiffersError if there is no such array."""
        content = self.content(probe)
        if key not in content or (content[key] is not None and not json_values.fits(content[key], Kind.ARRAY)):
            raise DiffersError(f"{probe.value}: there is no array `{key}`")
        return json_values.objects(content[key])

    def some(self, probe: AccountProbe, key: str) -> list[Mapping[str, object]]:
        """The same; raises NotSeenError if there are none."""
        found = self.items(probe, key)
        if not found:
            raise NotSeenError(
                "the account has no instance" if probe is AccountProbe.LIST else f"none are there: {probe.value}"
            )
        return found

    def instance(self) -> Mapping[str, object]:
        """The instance that was looked up; raises NotSeenError if the account has none."""
        if AccountProbe.INSTANCE not in self.answers:
            raise NotSeenError("the account has no instance")
        return self.content(AccountProbe.INSTANCE)

    def tried(self) -> Trial:
        """What was seen of the trial machine; raises NotSeenError without one."""
        if self.trial is None:
            raise NotSeenError("needs --spend")
        return self.trial

    def looks(self, stage: Stage) -> tuple[Look, ...]:
        """The looks at the trial machine in *stage*; raises NotSeenError without any."""
        found = self.tried().at(stage)
        if not found:
            raise NotSeenError(f"the trial ended before its {stage.value}")
        return found


def says_gone(answer: ProviderAnswer) -> bool:
    """Whether *answer*, a lookup of an instance, says that there is none, or that it is removed."""
    content = mapping(answer.content)
    if answer.is_success:
        return content.get("status") == "removed"
    reason, message = json_values.text(content.get("reason")), json_values.text(content.get("message"))
    return answer.status in {400, 404} and (reason.endswith("NOT_FOUND") or "not foun" in message.lower())
