"""Nothing of the program that a person meets is without a line in the documents."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from support.suite import pages

import corral
from corral.api.http.errors import STATUS_BY_CLASS, STATUS_BY_CODE
from corral.api.openapi import errors
from corral.app.bootstrap import pool_size
from corral.app.role import Role
from corral.base.log import LOG_EVENTS
from corral.base.settings.configuration import load
from corral.cli.all_commands import cli
from corral.domain.errors import NEXT_STEPS
from corral.domain.events import EventType
from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.operation import OperationKind, OperationStatus
from corral.store.session.database import OWN_CONNECTIONS

SOURCE = pages.ROOT / "src" / "corral"
TELLS_CODES = ("domain", "engine", "api", "webhooks", "cache")
"""Packages in which every word in capitals with an underscore is an error code."""


def test_every_error_code_is_explained() -> None:
    files = [path for part in TELLS_CODES for path in (SOURCE / part).rglob("*.py")]
    # The checks of the provider name its reasons and our settings, and no code of ours.
    written = "\n".join(path.read_text() for path in files if "verification" not in path.parts)
    codes = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', written)) | {kind.code for kind in STATUS_BY_CLASS}
    explained = re.findall(
        r"^\| (?:\d+ \| )?`([A-Z_]+)` \| (?=\S)", pages.text("docs/reference/errors.md"), re.MULTILINE
    )

    assert len(codes) > 40
    assert sorted(codes - set(explained)) == []


def test_every_error_is_listed_under_the_status_it_is_answered_with() -> None:
    listed = re.findall(r"^\| (\d+) \| `([A-Z_]+)` \|", pages.text("docs/reference/errors.md"), re.MULTILINE)
    reported = {(str(int(status)), code) for code, status in STATUS_BY_CODE.items()}
    reported |= {
        (str(int(status)), kind.code) for kind, status in STATUS_BY_CLASS.items() if kind.code not in STATUS_BY_CODE
    }
    reported |= {
        (str(status), code)
        for table in (errors.EVERYWHERE, errors.KEYED, errors.CHANGING, *errors.OF_ROUTE.values())
        for status, codes in table.items()
        for code in codes
    }

    assert sorted(reported - set(listed)) == []


def test_every_failure_of_an_instance_says_what_can_be_done() -> None:
    page = pages.text("docs/reference/errors.md").partition("## Instances")[2]

    assert set(NEXT_STEPS) <= set(re.findall(r"^\| `([A-Z_]+)` \| \S[^|]* \| \S", page, re.MULTILINE))


def test_every_setting_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| \S[^|]* \|$", pages.text("docs/reference/settings.md"), re.MULTILINE)

    assert rows == [setting.name for setting in load({}).shown]


@pytest.mark.parametrize("enum", [Goal, Phase, Sighting, Action, OperationKind, OperationStatus])
def test_every_word_of_the_tables_is_explained(enum: type[StrEnum]) -> None:
    """In a sentence that says more than the word."""
    page = pages.text("docs/reference/lifecycle.md")
    sections = [re.findall(r"^- `(\w+)`: (\S.+)$", part, re.MULTILINE) for part in page.split("\n## ")]

    assert [member.value for member in enum] in [[word for word, _ in section] for section in sections]
    assert all(len(said.split()) > 1 for section in sections for _, said in section)


def test_every_status_is_listed_by_the_api_and_by_the_dashboard() -> None:
    """The lists that are written by hand: the field's description, and the active statuses of the dashboard."""
    document = msgspec.json.decode(pages.text("docs/reference/openapi.json"))
    described = document["components"]["schemas"]["InstanceDetails"]["properties"]["status"]["description"]
    active = re.search(r"ACTIVE = (\[.*?\]);", (SOURCE / "dashboard/shared/format.js").read_text())

    assert set(re.findall(r"[a-z_]+", described)) - {"or"} == set(Phase)
    assert active is not None
    assert set(msgspec.json.decode(active[1])) == set(Phase) - {Phase.TERMINATED}


def test_every_event_is_explained() -> None:
    page = pages.text("docs/reference/events.md")

    assert re.findall(r"^- `(\w+\.\w+)`: \S", page, re.MULTILINE) == [event.value for event in EventType]
    assert re.findall(r"^\| `([\w.]+)` \| \S", page, re.MULTILINE) == sorted(LOG_EVENTS)


def test_every_command_is_explained() -> None:
    page = pages.text("docs/reference/cli.md")
    shown = [re.split(r" [A-Z\[]", name)[0] for name in re.findall(r"^## `corral (.+)`\n\n\S", page, re.MULTILINE)]

    assert sorted(shown) == sorted(_commands(typer.main.get_command(cli)))


def test_every_route_is_explained() -> None:
    described = msgspec.json.decode((pages.ROOT / "docs/reference/openapi.json").read_bytes())["paths"]
    routes = {f"{method.upper()} {path}" for path, row in described.items() for method in row}

    assert len(routes) > 30
    assert sorted(pages.table_column("docs/reference/api.md", 0)) == sorted(f"{route}" for route in routes)


def test_every_page_of_the_contract_is_there() -> None:
    """The map lists every page under docs/, so that a new one is not forgotten."""
    linked = {Path("docs", link.partition("#")[0]).as_posix() for link in pages.links("docs/README.md")}
    expected = {page.as_posix() for page in pages.pages() if page.parts[0] == "docs" and "decisions" not in page.parts}

    assert sorted(expected - linked - {"docs/README.md"}) == []


def _commands(group: Any, before: str = "") -> list[str]:
    found: list[str] = []
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found += [f"{before}{name}"] if inner is None else _commands(command, f"{before}{name} ")
    return found


def test_the_sessions_of_every_role_are_documented() -> None:
    """An operator sizes `max_connections` by this table; too few, and a process gets no session."""
    page = (pages.ROOT / "docs" / "how-to" / "replicas.md").read_text()
    shown = re.findall(r"^\| `.*` (?:\(both\) )?\| .* \| (\d+) \|$", page, re.MULTILINE)
    settings = load({"MAX_CONCURRENT_JOBS": "10"}).settings
    opened = {role: pool_size(settings, role) + OWN_CONNECTIONS for role in Role}
    opened[Role.API] -= 1  # it never leads

    assert [int(number) for number in shown] == [opened[role] for role in (Role.API, Role.WORKER, Role.ALL)]


def test_the_documents_name_this_release() -> None:
    """A command that names the wheel or the image of another release does not work."""
    named = re.compile(r"\b[Cc]orral(?:_client-|-| |:)(\d+\.\d+\.\d+)")
    found = {
        (str(page), version)
        for page in pages.pages()
        if page.name != "CHANGELOG.md"
        for version in named.findall(pages.text(page))
    }

    assert len(found) > 3
    assert {version for _, version in found} == {corral.__version__}, found
