"""Ways in which answers differ from what is documented, so that a client's assumptions can be made false one by one."""

from __future__ import annotations

from dataclasses import dataclass

from novitasim import accepts
from novitasim.accepts import choice, seconds, setting
from novitasim.bill_settings import BillSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings(BillSettings):
    """What answers, their headers and their filters are like."""

    odd_answers: str = setting(
        "",
        accepts.odd_answers(),
        "fields of answers, at any depth, that are missing or have another value; CALL as in the table of calls",
    )
    clock_ahead_seconds: float = setting(0.0, seconds(), "the Date of answers is so far ahead of the client's clock")
    rate_headers: str = setting(
        "none", choice("none", "limit"), "answers announce rate_limit_per_minute in X-RateLimit-Limit; unknown"
    )
    status_filter: str = setting(
        "exact",
        choice("exact", "ignored", "nothing"),
        "how the list reads `status`: that status; all; or no instance ever fits",
    )
    product_filters: str = setting(
        "applied", choice("applied", "ignored"), "whether products heed clusterId and billingMethod"
    )
    refused_create: str = setting(
        "nothing",
        choice("nothing", "created"),
        "what a create of an unknown product leaves behind: nothing, or a machine of the cheapest product",
    )
