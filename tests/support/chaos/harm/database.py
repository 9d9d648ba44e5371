"""Harm to PostgreSQL: restarted, frozen, read-only, statements cancelled."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from support.chaos.installation import until
from support.chaos.rules import Field

FROZEN = (2.0, 12.0)
READ_ONLY = (3.0, 15.0)
_OF_CORRAL = "datname = '{database}' AND pid <> pg_backend_pid()"


async def restart(field: Field) -> None:
    """Stopped in one of three ways, and started again."""
    if field.database.locked():
        return
    async with field.database:
        server = field.installation.server
        os.kill(field.installation.postmaster(), field.dice.choice([signal.SIGINT, signal.SIGKILL, signal.SIGQUIT]))

        async def is_down() -> bool:
            return server.needs_attention()

        await until(is_down, 30)
        await server.ensure()


async def freeze(field: Field) -> None:
    """The server and all its sessions stop answering for a while; connections stay open."""
    if field.database.locked():
        return
    async with field.database:
        postmaster = field.installation.postmaster()
        os.kill(postmaster, signal.SIGSTOP)  # first: it makes no more sessions
        frozen = [postmaster, *_children(postmaster)]
        try:
            for pid in frozen[1:]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            await field.spell(*FROZEN)
        finally:
            for pid in frozen:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


async def read_only(field: Field) -> None:
    """Writes are refused for a while, as on a standby before its promotion; sometimes sessions are ended, too."""
    if field.database.locked():
        return
    async with field.database:
        ends_sessions = field.dice.random() < 0.5
        await _switch(field, "SET default_transaction_read_only = on", ends_sessions=ends_sessions)
        try:
            await field.spell(*READ_ONLY)
        finally:
            await _switch(field, "RESET default_transaction_read_only", ends_sessions=ends_sessions)


async def cancel_statements(field: Field) -> None:
    """Every statement that runs is cancelled, as an administrator or a statement time-out does."""
    if field.database.locked():
        return
    async with field.database:
        which = _OF_CORRAL.format(database=field.installation.target.database)
        await field.installation.sql(
            f"SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE state = 'active' AND {which}"  # noqa: S608
        )


async def _switch(field: Field, change: str, *, ends_sessions: bool) -> None:
    which = _OF_CORRAL.format(database=field.installation.target.database)
    ends = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {which}"  # noqa: S608
    await field.installation.sql(
        f"ALTER SYSTEM {change}", "SELECT pg_reload_conf()", ends if ends_sessions else "SELECT 1"
    )


def _children(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(pid) for pid in tasks.read_text().split()] if tasks.exists() else []
