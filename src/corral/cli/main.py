"""The entry point of `corral`: runs a command and turns what it raises into a message and an exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import corral_client
from corral.cli.commands.service import serve
from corral.cli.completion import rejoin_words
from corral.cli.environment import open_standard_streams
from corral.cli.exit_codes import INTERRUPTED, exit_code, explain
from corral.cli.output import print_note
from corral.cli.remote.askpass import ASKED_FOR, answer, is_askpass
from corral.domain import errors


def main() -> None:
    """Run the command line; every error of ours is one message and an exit code, never a stack trace."""
    open_standard_streams()
    if "_CORRAL_COMPLETE" in os.environ:  # noqa: TID251  # the shell asks for completions
        rejoin_words(os.environ)  # noqa: TID251
    if is_askpass(sys.argv, os.environ):  # noqa: TID251  # ssh asks for a password
        sys.exit(_exit_code(lambda: sys.exit(answer(sys.argv[1], os.environ[ASKED_FOR]))))  # noqa: TID251
    sys.exit(_exit_code(serve.commands if sys.argv[1:2] == ["serve"] else _every_command))


def _every_command() -> None:
    from corral.cli.all_commands import cli  # noqa: PLC0415  # the service would keep 4 MB of commands it never runs

    cli()


def _exit_code(command: Callable[[], object]) -> int:
    try:
        command()
    except errors.CorralError as error:
        print_note(f"corral: {error.message}")
        return exit_code(error)
    except corral_client.CorralError as error:
        print_note(f"corral: {explain(error)}")
        return exit_code(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    return 0
