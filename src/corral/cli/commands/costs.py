"""`corral costs`: what machines cost, and whether the provider's bill agrees."""

from __future__ import annotations

import typer

from corral.cli.commands import reconcile

commands = typer.Typer(name="costs", help="What machines cost, and whether the provider's bill agrees.")
commands.add_typer(reconcile.commands)


@commands.callback()
def _costs() -> None:
    """What machines cost, and whether the provider's bill agrees."""
