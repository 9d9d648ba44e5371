"""Days that were compared with the provider's bill, as the API shows them, in USD."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.costs.reconciled_days import DayState, ReconciledDay
from corral.domain.costs.reconciliation import Amounts, BillOutcome, MachineResult
from corral.domain.placement.pricing import usd
from corral.domain.timing import iso
from corral.views.costs.costs import Amount


class MachineComparison(msgspec.Struct, rename="camel"):
    """One machine on one day."""

    novita_instance_id: Annotated[str, Meta(description="The provider's id of the machine, as in its bill.")]
    instance_id: Annotated[str | None, Meta(description="The instance that it belongs to; null: to none.")]
    outcome: Annotated[
        BillOutcome,
        Meta(
            description="`match`: the same to the cent; `within_bounds`: the observations allow it; `price_changed`:"
            " the right time at another price; `missing_bill`: less than it must have cost; `over_billed`: more than it"
            " may have cost; `unknown_machine`: there is no usage of it."
        ),
    ]
    usage: Annotated[Amount, Meta(description="What its usage cost.")]
    billed: Annotated[float, Meta(description="USD in the bill, before vouchers.")]
    difference: Annotated[float, Meta(description="USD that the bill has more than the usage.")]
    reason: Annotated[str, Meta(description="The explanation of the difference.")]
    name: Annotated[str | None, Meta(description="The provider's name of an unknown machine that still exists.")]
    orphan: Annotated[bool, Meta(description="Whether an unknown machine carries this installation's mark.")]


class DayComparison(msgspec.Struct, rename="camel"):
    """One day in UTC; amounts are null while the bill could not be read."""

    day: Annotated[str, Meta(description="The day, in UTC.")]
    state: Annotated[DayState, Meta(description="`unreachable`: no attempt could read the bill.")]
    attempted_at: Annotated[str, Meta(description="When it was last compared, or that was tried.")]
    attempts: Annotated[int, Meta(description="How often.")]
    retry_at: Annotated[
        str | None, Meta(description="When it is compared again, because the bill may be late; null: not by itself.")
    ]
    problem: Annotated[str | None, Meta(description="Why the bill could not be read at the last attempt.")]
    usage: Annotated[Amount | None, Meta(description="What the usage of all machines cost.")]
    billed: Annotated[float | None, Meta(description="USD in the bill for machines, before vouchers.")]
    difference: Annotated[float | None, Meta(description="USD that the bill has more for machines than the usage.")]
    other: Annotated[float | None, Meta(description="USD in the bill for what is no machine, such as volumes.")]
    paid: Annotated[
        float | None, Meta(description="USD of the whole bill after vouchers; null if the bill does not say.")
    ]
    counts: Annotated[dict[str, int], Meta(description="How many machines have each outcome.")]
    unreadable_rows: Annotated[int, Meta(description="Rows of the bill that could not be read.")]
    machines: Annotated[
        list[MachineComparison],
        Meta(description="The largest unexplained difference first, at most 1000; empty unless `day` is given."),
    ]


class DayComparisons(msgspec.Struct):
    """Days that were compared with the bill."""

    reconciliations: Annotated[list[DayComparison], Meta(description="The latest first.")]


def day_comparison(found: ReconciledDay, *, with_machines: bool) -> DayComparison:
    """What is shown of a day."""
    result = found.result
    return DayComparison(
        day=found.day.isoformat(),
        state=found.state,
        attempted_at=iso(found.attempted_at),
        attempts=found.attempts,
        retry_at=None if found.retry_at is None else iso(found.retry_at),
        problem=found.reason,
        usage=None if result is None else _amount(result.usage),
        billed=None if result is None else usd(result.billed),
        difference=None if result is None else usd(result.billed - result.usage.usd),
        other=None if result is None else usd(result.other),
        paid=None if result is None or result.paid is None else usd(result.paid),
        counts={} if result is None else {outcome.value: result.counts.get(outcome, 0) for outcome in BillOutcome},
        unreadable_rows=0 if result is None else result.unreadable,
        machines=[_machine(each) for each in result.machines] if result is not None and with_machines else [],
    )


def _machine(found: MachineResult) -> MachineComparison:
    return MachineComparison(
        novita_instance_id=found.provider_id,
        instance_id=found.instance_id,
        outcome=found.outcome,
        usage=_amount(found.usage),
        billed=usd(found.billed),
        difference=usd(found.difference),
        reason=found.because,
        name=found.name,
        orphan=found.is_orphan,
    )


def _amount(found: Amounts) -> Amount:
    return Amount(usd=usd(found.usd), low=usd(found.low), high=usd(found.high))
