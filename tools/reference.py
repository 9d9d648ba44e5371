"""
Writes docs/reference/ from the program's own tables: `make docs`. A test fails when the pages are out of date.

Run as `python tools/reference.py` to write, `python tools/reference.py --check` to compare.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import grafana
import routes
import typer
from error_words import ANSWERS, FAILURES, FIELDS
from layout import page

from corral.base.log import LOG_EVENTS
from corral.base.metrics import MetricFamily, Metrics
from corral.base.settings.configuration import FILE_SUFFIX, load, secret_names
from corral.cache import registry
from corral.cli.all_commands import cli
from corral.cli.exit_codes import MEANINGS
from corral.domain.errors import next_step
from corral.domain.events import EventType
from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.lifecycle.tables import all_transitions, happy_path
from corral.domain.observation.sighting import Sighting
from corral.domain.operation import OperationKind, OperationStatus
from corral.domain.verification.table import CHECKS
from corral.engine.queries import fleet
from novitasim import reference as simulator

HOME = Path(__file__).resolve().parent.parent / "docs" / "reference"


def settings_page() -> str:
    """Every setting."""
    rows = [
        f"| `{s.name}` | {f'`{s.default}`' if s.default else ''} | {s.accepts} | {' '.join(s.meaning.split())} |"
        for s in load({}).shown
    ]
    return page(
        "Settings",
        "From the command line, the environment and `.env`, in that order of precedence. An empty value counts as "
        "unset; an unknown name that begins with `CORRAL_` is an error. `corral config` prints the values in effect. "
        f"{', '.join(f'`{name}`' for name in secret_names())} can also be read from a file, which is named by "
        f"`NAME{FILE_SUFFIX}` (`{secret_names()[0]}{FILE_SUFFIX}=/run/secrets/key`): for Docker's and Kubernetes' "
        "secrets and systemd's credentials. Setting both is an error.",
        ["| name | default | accepted | meaning |", "|---|---|---|---|", *rows],
    )


def lifecycle_page() -> str:
    """The life of an instance, from its tables."""
    sections = [
        ("Statuses", "The *phase* of an instance, shown as `status`.", Phase),
        ("Goals", "What the user wants of it.", Goal),
        ("Sightings", "The provider's status of it, translated.", Sighting),
        ("Actions", "What Corral may do about it.", Action),
        ("Operations", "Commands on an instance.", OperationKind),
        ("Status of an operation", "Its `status`.", OperationStatus),
    ]
    return page(
        "The life of an instance",
        "Drawn from the tables in `domain/lifecycle/tables.py`, which alone define the transitions.",
        [
            *["If nothing goes wrong:", "", "```mermaid", happy_path(), "```", ""],
            *["Every transition; no other is ever recorded:", "", "```mermaid", all_transitions(), "```"],
            *(line for title, lead, enum in sections for line in ["", f"## {title}", "", lead, "", *_members(enum)]),
        ],
    )


def errors_page() -> str:
    """Every error code, where it occurs, and its meaning."""
    answers = [
        f"| {status} | `{code}` | {meaning} |" for status, row in ANSWERS.items() for code, meaning in row.items()
    ]
    failures = [f"| `{code}` | {meaning} | {_advice(code)} |" for code, meaning in FAILURES.items()]
    return page(
        "Errors",
        "One shape for every error; `retryable` says whether a retry may succeed, `retryAfter` (and the "
        "`Retry-After` header) when. An id or name in a path that cannot exist is 404, as an unknown one is; a query "
        "parameter, header or field of the body that is not valid is 400.",
        [
            *["## Responses", "", "| HTTP | code | meaning |", "|--:|---|---|", *answers, ""],
            *["## Fields", "", "The codes in `validationErrors`, with what is accepted.", ""],
            *["| code | accepted |", "|---|---|", *(f"| `{code}` | {what} |" for code, what in FIELDS.items()), ""],
            *["## Instances", "", "Why one failed: `error` of the instance, of its operation and of its webhook.", ""],
            *["| code | meaning | what can be done |", "|---|---|---|", *failures],
        ],
    )


def events_page() -> str:
    """Every event of the event log, and every log event."""
    logged = [f"| `{event}` | {meaning} |" for event, meaning in sorted(LOG_EVENTS.items())]
    return page(
        "Events",
        "The events of instances, budgets and the account (the event log), and what the service logs about itself.",
        [
            *["## In the event log", "", *_members(EventType), ""],
            *["## In the log", "", "| event | meaning |", "|---|---|", *logged],
        ],
    )


def cli_page() -> str:
    """Every command and exit code."""
    group: Any = typer.main.get_command(cli)
    commands = [line for name, command in _flat(group) for line in _command(name, command)]
    codes = [f"| {code} | {meaning} |" for code, meaning in MEANINGS.items()]
    return page(
        "The command line",
        "Results go to standard output, everything else to standard error; without a terminal there are no colours and "
        "no live lines. An instance is named by its name, its id or the provider's id; a name that several live "
        "instances share is refused with their ids. An option with * is required.",
        ["## Exit codes", "", "| code | meaning |", "|--:|---|", *codes, "", *commands],
    )


def metrics_page() -> str:
    """Every metric for Prometheus."""
    ours = [*Metrics().families, *registry.FAMILIES]
    return page(
        "Metrics",
        "The metrics of `GET /metrics`. Labels are members of Corral's own enums, never ids. "
        "[How to use them](../how-to/metrics.md).",
        [
            "## Of the whole fleet",
            "",
            "Read from the database at a scrape, so all processes report the same: use `max`.",
            "",
            *_families(fleet.FAMILIES),
            "",
            "## Of the process that is scraped",
            "",
            "Counted since it started: use the `sum` over all processes.",
            "",
            *_families(ours),
        ],
    )


def _families(families: Iterable[MetricFamily]) -> list[str]:
    rows = [
        f"| `{f.name}` | {f.kind} | {', '.join(f'`{label}`' for label in f.labels)} | {f.meaning} |"
        for f in sorted(families, key=lambda f: f.name)
    ]
    return ["| name | kind | labels | meaning |", "|---|---|---|---|", *rows]


def verification_page() -> str:
    """Every assumption that `corral verify` checks."""
    rows = []
    for check in CHECKS:
        setting = f" Setting: {check.setting}." if check.setting else ""
        copes = "yes" if check.copes else "**no**"
        rows.append(f"| `{check.id}` | {_sentence(check.assumes)} | {_sentence(check.otherwise)}{setting} | {copes} |")
    return page(
        "What Corral assumes about the provider",
        "The checks of `corral verify`. *Copes*: whether Corral works as promised where the assumption does not hold, "
        "so that there is nothing to do. [How to use it](../how-to/verify.md).",
        ["| check | assumption | what Corral does otherwise | copes |", "|---|---|---|---|", *rows],
    )


def simulator_page() -> str:
    """The page about the simulator, with the tables of its settings, faults and calls renewed."""
    return simulator.renewed((HOME / "../simulator.md").read_text(encoding="utf-8"))


PAGES = {
    "settings.md": settings_page,
    "lifecycle.md": lifecycle_page,
    "errors.md": errors_page,
    "events.md": events_page,
    "cli.md": cli_page,
    "metrics.md": metrics_page,
    "verification.md": verification_page,
    "api.md": routes.api_page,
    "openapi.json": routes.openapi_page,
    "../grafana/corral.json": grafana.dashboard,
    "../simulator.md": simulator_page,
}


def main(arguments: list[str]) -> int:
    """Write the pages, or print which are out of date."""
    stale = [name for name, page in PAGES.items() if _present(name) != page()]
    if "--check" in arguments:
        for name in stale:
            sys.stderr.write(
                f"docs/{(HOME / name).resolve().relative_to(HOME.parent)} is out of date; run `make docs`\n"
            )
        return 1 if stale else 0
    for name in stale:
        (HOME / name).parent.mkdir(parents=True, exist_ok=True)
        (HOME / name).write_text(PAGES[name](), encoding="utf-8")
    return 0


def _present(name: str) -> str | None:
    path = HOME / name
    return path.read_text(encoding="utf-8") if path.exists() else None


def _command(name: str, command: Any) -> list[str]:
    """One command: what it does, what it takes."""
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([f"corral {name}", *(_argument(p) for p in arguments)])
    rows = [f"| {_flags(p)} | {_default(p)} | {p.help or ''} |" for p in options if p.name != "help"]
    table = ["| option | default | meaning |", "|---|---|---|", *rows, ""] if rows else []
    return [f"## `{usage}`", "", (command.help or "").strip(), "", *table]


def _argument(argument: Any) -> str:
    shown = argument.metavar or argument.name.upper()
    return shown if argument.required or shown.startswith("[") else f"[{shown}]"


def _flags(option: Any) -> str:
    return " ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts]) + (" *" if option.required else "")


def _default(option: Any) -> str:
    if option.is_flag and option.secondary_opts:
        return f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
    return "" if option.default in (None, False) else f"`{option.default}`"


def _flat(group: Any, before: str = "") -> Iterable[tuple[str, Any]]:
    """Every command, those of groups by their whole name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _flat(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _members(enum: type[StrEnum]) -> list[str]:
    """The members of an enum with the docstrings under them, which Python forgets, from the source."""
    [body] = [
        node.body
        for node in ast.walk(ast.parse(inspect.getsource(inspect.getmodule(enum) or sys)))
        if isinstance(node, ast.ClassDef) and node.name == enum.__name__
    ]
    meanings = {
        before.targets[0].id: after.value.value
        for before, after in pairwise(body)
        if isinstance(before, ast.Assign) and isinstance(before.targets[0], ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }
    return [f"- `{member}`: {meanings[member.name]}" for member in enum]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _advice(code: str) -> str:
    step = next_step(code) or ""
    return step[:1].upper() + step[1:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
