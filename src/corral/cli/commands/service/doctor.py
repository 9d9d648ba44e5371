"""`corral doctor`: is everything there that Corral needs, and if not, what to do."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from corral.base.clock import SystemClock
from corral.cli.environment import configuration, configure_logging
from corral.cli.options import Json
from corral.cli.output import print_json, print_table
from corral_client.login import URL_VARIABLE

commands = typer.Typer()


@commands.command(rich_help_panel="The service")
def doctor(
    json: Json = False,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            envvar=URL_VARIABLE,
            help="Where the service should be; or `CORRAL_URL`; by default as HOST and PORT say.",
        ),
    ] = None,
) -> None:
    """Look at settings, database, provider, clock and service. Exit code 1 when anything failed; nothing is changed."""
    from corral.app.doctor import CheckStatus, examine  # noqa: PLC0415  # the service's parts take half a second to load

    configure_logging("error")
    findings = asyncio.run(examine(lambda: configuration({}), SystemClock(), url=url))
    healthy = not any(finding.status is CheckStatus.FAILED for finding in findings)
    rows = [(f.check, f.status.value, f.found, f.next_step) for f in findings]
    if json:
        names = ("check", "verdict", "found", "nextStep")
        print_json({"healthy": healthy, "findings": [dict(zip(names, row, strict=True)) for row in rows]})
    else:
        print_table(["check", "verdict", "found", "what to do"], rows, styled="verdict")
    if not healthy:
        raise typer.Exit(1)
