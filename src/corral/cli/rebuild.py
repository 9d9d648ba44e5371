"""`corral rebuild`: after the loss of the database, every machine under its old id, from the provider's list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
import uvloop

from corral.cli.environment import configuration, configure_logging
from corral.cli.options import Json
from corral.cli.output import price, print_json, print_note, print_table
from corral.domain.observation.rebuild import RebuildOutcome
from corral.domain.placement.pricing import usd

if TYPE_CHECKING:
    from corral.engine.recovery.rebuild import Assessment, RebuildPlan

commands = typer.Typer()


@commands.command()
def rebuild(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be recorded, and record nothing.")
    ] = False,
    installation: Annotated[
        str | None,
        typer.Option(metavar="MARK", help="The installation, where the account has machines of several."),
    ] = None,
    json: Json = False,
) -> None:
    """
    Find every machine of this installation in the provider's account and record those the database does not know.

    For the day on which the database is lost. The service must not be running. Nothing is created, changed or deleted
    at the provider, and machines that no Corral or another one made are not touched.
    """
    from corral.app import offline_tasks  # noqa: PLC0415  # half a second that other commands need not wait
    from corral.engine.recovery.rebuild import unknowable  # noqa: PLC0415  # as above

    settings = configuration({}).settings
    configure_logging("warning")
    plan = uvloop.run(offline_tasks.rebuild(settings, installation=installation, dry_run=dry_run))
    if json:
        shown = {
            "dryRun": dry_run,
            "installation": plan.installation,
            "machines": list(map(_described, plan.found)),
        }
        others = {"otherInstallations": dict(plan.others), "unmarked": plan.unmarked}
        print_json({**shown, **others, "unknown": list(unknowable())})
        return
    _show(plan)
    for line in _summary(plan, dry_run=dry_run):
        print_note(line)
    if plan.to_record:
        print_note("What the provider does not know, and is lost:")
        for lost in unknowable():
            print_note(f"  - {lost}")


def _show(plan: RebuildPlan) -> None:
    print_table(
        ("instance", "machine", "attempt", "is", "product", "region", "price", "outcome"),
        [
            (
                _instance_id(one),
                one.finding.seen.id,
                one.finding.origin.attempt,
                one.finding.seen.provider_status,
                one.finding.seen.product_name,
                one.finding.seen.region,
                price(None if one.micro_usd is None else usd(one.micro_usd)),
                one.finding.outcome.value,
            )
            for one in plan.found
        ],
    )


def _summary(plan: RebuildPlan, *, dry_run: bool) -> list[str]:
    said = f"{len(plan.to_record)} of {len(plan.found)} machines of installation {plan.installation}"
    lines = [f"Would record {said}; nothing was changed." if dry_run else f"Recorded {said}."]
    twins = [one for one in plan.found if one.finding.outcome is RebuildOutcome.DUPLICATE]
    lines += [
        f"{one.finding.seen.id} is a second machine of {one.finding.origin.instance_id} and has a record of its own, "
        f"{_instance_id(one)}: look which one you need, and delete the other with `corral rm`."
        for one in twins
    ]
    surplus = sum(one.finding.outcome is RebuildOutcome.SURPLUS for one in plan.found)
    if surplus:
        lines.append(
            f"{surplus} belong to instances that have another machine or are gone: the service adopts or reports them."
        )
    for installation, count in sorted(plan.others.items()):
        lines.append(f"Not touched: {count} of installation {installation}.")
    if plan.unmarked:
        lines.append(f"Not touched: {plan.unmarked} that no Corral made.")
    return lines


def _instance_id(one: Assessment) -> str:
    return one.finding.origin.instance_id if one.instance is None else one.instance.id


def _described(one: Assessment) -> dict[str, object]:
    seen = one.finding.seen
    return {
        "instanceId": _instance_id(one),
        "madeFor": one.finding.origin.instance_id,
        "attempt": one.finding.origin.attempt,
        "novitaInstanceId": seen.id,
        "novitaStatus": seen.provider_status,
        "productName": seen.product_name,
        "region": seen.region,
        "price": None if one.micro_usd is None else usd(one.micro_usd),
        "outcome": one.finding.outcome.value,
    }
