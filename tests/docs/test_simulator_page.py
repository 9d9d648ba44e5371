"""docs/simulator.md is correct about the simulator."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from novitasim import reference, settings
from novitasim.__main__ import _parser
from novitasim.faults import faults
from novitasim.server import control

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"


def test_the_generated_tables_are_current() -> None:
    """If not: python -m novitasim.reference docs/simulator.md."""
    page = PAGE.read_text()

    assert reference.renewed(page) == page


def test_every_setting_fault_and_control_call_is_documented() -> None:
    page = PAGE.read_text()
    named = {f"| `{name}` |" for name in (*settings.fields(), *faults.Fault)}
    named |= {f"| `{method} {path}` |" for method, path, _ in control.described()}

    assert [name for name in sorted(named) if name not in page] == []


def test_every_control_call_has_a_meaning() -> None:
    assert [call for call in control.described() if not call[2]] == []


def test_every_option_that_the_page_shows_exists() -> None:
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE.read_text()))
    known = {option for action in _parser()._actions for option in action.option_strings}

    assert shown - known == set()
    assert known - shown - {"-h", "--help", "--host"} == set()


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="has no markers"):
        reference.renewed("")


def test_the_command_prints_every_setting() -> None:
    command = [sys.executable, "-m", "novitasim", "--settings"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert [name for name in settings.fields() if f"{name} = " not in printed] == []
