"""Options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from corral_client import Client
from corral_client.client import DEFAULT_URL

RETRIES = 2
"""A person who waits for an answer would rather be told soon."""

Url = Annotated[str, typer.Option("--url", help="Where the service is.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Named = Annotated[str, typer.Argument(metavar="NAME", help="Name or id.")]
Timeout = Annotated[float | None, typer.Option(help="Most seconds to wait; the work goes on after that.", min=0)]

__all__ = ["DEFAULT_URL", "Json", "Named", "Timeout", "Url", "connect"]


def connect(url: str) -> Client:
    """A client of the service at *url*."""
    return Client(url, max_retries=RETRIES)
