"""
One request to a provider and its outcome: the interface between sending HTTP and guarding it.

An `Exchange` sends exactly one request for each `ask`. `novita/http.py` is the bare one; `guarded.py` wraps it with the
rate limiter, the breaker and the retries. A `FaultError` holds the outcome of a failed request;
`novita/client.py` turns it into a CloudError.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol, TypeVar

Answer = TypeVar("Answer")

MEBIBYTE = 1024 * 1024


class CallOutcome(StrEnum):
    """Whether a request that did not succeed may have been carried out."""

    DID_NOT_HAPPEN = "did_not_happen"
    """It was certainly not carried out; the same request may succeed later."""
    NEVER_WILL = "never_will"
    """It was understood and refused; repeating it is useless."""
    NOT_HERE = "not_here"
    """This offer cannot be had; another may."""
    MAY_HAVE_HAPPENED = "may_have_happened"
    """Unknown; only a lookup shows it."""
    THROTTLED = "throttled"
    """It was not carried out because of the provider's rate limit."""
    GONE = "gone"
    """What it is about does not exist."""
    MONEY = "money"
    """The account cannot pay for it."""
    AUTH = "auth"
    """The key is not accepted."""


class Service(StrEnum):
    """The services of the provider. Each has its own limit and its own outages."""

    INSTANCES = "instances"
    """Machines and the catalog: what the rate limit is learned from and the circuit breaker protects."""
    METRICS = "metrics"
    """Measurements. As of every service but the first, its paths begin at the host and not at the base address."""
    BILLING = "billing"
    """The bill and the balance."""


class FaultError(Exception):
    """
    A request that failed. Its text contains nothing the provider wrote, except a reason from its documented list.

    `status` is None when there was no whole answer. `timed_out` distinguishes a slow provider from a broken one.
    """

    def __init__(
        self,
        outcome: CallOutcome,
        because: str,
        *,
        status: int | None = None,
        reason: str = "",
        timed_out: bool = False,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(because)
        self.outcome = outcome
        self.because = because
        self.status = status
        self.reason = reason
        self.timed_out = timed_out
        self.retry_after_seconds = retry_after_seconds

    @property
    def blames_provider(self) -> bool:
        """Whether it counts as a failure of the provider: no answer, or no usable one; never a 4xx."""
        return self.status is None or not 400 <= self.status < 500  # noqa: PLR2004  # the range HTTP gives refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. The body may hold secrets, so it is kept out of `repr`."""

    endpoint: str
    """Its name in logs and metrics, from a small fixed set."""
    method: Literal["GET", "POST"]
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = field(default=None, repr=False)
    about: str = ""
    """What an error says it was about: an id or a name."""
    missing_code: str = "NOVITA_API_ERROR"
    """The public code when what it is about does not exist."""
    most_bytes: int = MEBIBYTE
    """The longest answer that is read, after unpacking."""
    max_wait_seconds: float = 30.0
    """How long it waits for a permit of the rate limiter; after that its caller retries later."""
    is_page: bool = False
    """Whether it is one of many pages of one list, or stands for one; other reads may overtake it."""
    is_awaited: bool = False
    """Whether a running machine waits for this lookup to become usable; it goes before other reads."""
    is_sample: bool = False
    """Whether it reads measurements, which have a share of the rate limit of their own."""
    service: Service = Service.INSTANCES
    """The service that answers it; of another one than this, a refusal or an outage is its own."""
    is_urgent: bool = False
    """Whether it ends a bill (a stop, a delete) and so goes before other changes."""
    before_send: Callable[[], Awaitable[None]] | None = field(default=None, repr=False)
    """Called right before the request is sent, after every wait; what it raises keeps the request from being sent."""

    @property
    def is_at_origin(self) -> bool:
        """Whether the path begins at the host of the API, and not at its base address."""
        return self.service is not Service.INSTANCES

    @property
    def changes(self) -> bool:
        """Whether it may change something: it overtakes reads, and is repeated only if it certainly did not happen."""
        return self.method == "POST"

    def may_repeat(self, outcome: CallOutcome) -> bool:
        """Whether sending it again after *outcome* is safe and useful; a person waits for a sample, and asks again."""
        if self.is_sample:
            return False
        if outcome in {CallOutcome.DID_NOT_HAPPEN, CallOutcome.THROTTLED}:
            return True
        return outcome is CallOutcome.MAY_HAVE_HAPPENED and not self.changes


class Exchange(Protocol):
    """Something that sends requests."""

    @property
    def provider_time(self) -> datetime | None:
        """The time by the provider's clock, to the second, when it last answered; None if it did not say."""
        ...

    async def ask(self, call: Call, answer: type[Answer]) -> Answer:
        """Send *call* and read what comes back as *answer*; raises FaultError, or a CloudTransientError of its own."""
        ...
