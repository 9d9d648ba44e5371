"""API keys: created, listed and revoked in the database, whether or not the service runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
import uvloop

from corral.base.clock import SystemClock
from corral.cli.environment import configuration, configure_logging
from corral.cli.options import Json
from corral.cli.output import clock_time, print_json, print_line, print_note, print_table
from corral.domain.access import Access, ApiKey
from corral.domain.timing import iso

if TYPE_CHECKING:
    from corral.store.session.database import Database

commands = typer.Typer(name="keys", help="API keys: create, list and revoke them.", no_args_is_help=True)

T = TypeVar("T")


@commands.command()
def create(
    name: Annotated[str, typer.Argument(help="The name of its user; shown in `corral keys ls` and in the audit log.")],
    role: Annotated[
        Access, typer.Option(help="viewer reads; operator also acts on instances; admin also on caches and jobs.")
    ] = Access.VIEWER,
    json: Json = False,
) -> None:
    """Make a key and print it, this once: only its hash is stored."""
    from corral.engine.auth import api_keys  # noqa: PLC0415  # half a second that other commands need not wait

    key, text = _with_database(
        lambda database: api_keys.create_key(database, name=name, access=role, now=SystemClock().now())
    )
    if json:
        print_json({**_described(key), "key": text})
        return
    print_line(text)
    print_note(f"Key {key.id}, {key.access.value}, for {key.name}. It is not shown again.")


@commands.command("ls")
def list_keys(json: Json = False) -> None:
    """List every key: its role, its first characters, and when it was last used."""
    from corral.engine.auth import api_keys  # noqa: PLC0415  # as above

    found = _with_database(api_keys.list_keys)
    if json:
        print_json([_described(key) for key in found])
        return
    print_table(
        ("id", "name", "role", "key", "created", "last used", "revoked"),
        [
            (
                k.id,
                k.name,
                k.access.value,
                f"{k.prefix}...",
                *map(clock_time, (k.created_at, k.last_used_at, k.revoked_at)),
            )
            for k in found
        ],
    )


@commands.command()
def revoke(named: Annotated[str, typer.Argument(metavar="ID|NAME", help="Id or name of the key.")]) -> None:
    """End a key: every process refuses it at once, for good."""
    from corral.engine.auth import api_keys  # noqa: PLC0415  # as above

    key = _with_database(lambda database: api_keys.revoke_key(database, named=named, now=SystemClock().now()))
    print_line(f"{key.id} ({key.name}) is revoked")


def _with_database(work: Callable[[Database], Awaitable[T]]) -> T:
    """Do *work* on the database of the service, which may be running; a missing one is made."""
    from corral.app import database_setup  # noqa: PLC0415  # as above
    from corral.store.session.database import Database  # noqa: PLC0415  # as above

    settings = configuration({}).settings
    configure_logging("warning")

    async def run() -> T:
        async with database_setup.opened_database(settings, SystemClock()) as (target, _):
            await database_setup.migrate_database(target)
            database = await Database.connect(target, most_connections=1)
            try:
                return await work(database)
            finally:
                await database.close()

    return uvloop.run(run())


def _described(key: ApiKey) -> dict[str, str | None]:
    return {
        "id": key.id,
        "name": key.name,
        "role": key.access.value,
        "prefix": key.prefix,
        "createdAt": iso(key.created_at),
        "lastUsedAt": iso(key.last_used_at),
        "revokedAt": iso(key.revoked_at),
    }
