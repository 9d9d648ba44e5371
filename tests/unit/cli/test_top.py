"""The table of `corral top` on a terminal."""

from __future__ import annotations

import io
from datetime import UTC, datetime

from rich.console import Console
from support.sdk_models import an_instance

from corral.cli.commands.machine.top import BusyMachine, UseTable
from corral_client import MachineUse

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def machine(name: str, **use: object) -> BusyMachine:
    instance = an_instance(id=f"inst_{name}", name=name, billed=True, price=0.18)
    values = {"id": instance.id, "name": name, **use}
    return BusyMachine(instance=instance, use=MachineUse(**values))  # type: ignore[arg-type]  # names of MachineUse


def shown(*found: BusyMachine, height: int = 20) -> list[str]:
    console = Console(file=io.StringIO(), width=120, height=height)
    with console.capture() as capture:
        console.print(UseTable(found))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_table_with_a_value_of_each_machine_ends_with_the_sum() -> None:
    *_, row, total = shown(machine("one", gpu=95.4, sampled_at=NOW))

    assert row.split()[0] == "one"
    assert "95 %" in row
    assert total == "1 machine, $0.18/h. Ctrl-C ends this."


def test_a_machine_without_a_value_has_the_reason_below_the_table() -> None:
    total = shown(machine("one", gpu=1.0, sampled_at=NOW), machine("two"))[-1]

    assert total == ("2 machines, $0.36/h; the provider measures a new machine after about a minute. Ctrl-C ends this.")


def test_rows_that_do_not_fit_are_counted() -> None:
    lines = shown(*(machine(f"m{number}", gpu=1.0, sampled_at=NOW) for number in range(9)), height=6)

    assert len(lines) == 6
    assert lines[-1] == "9 machines, $1.62/h; 5 more below. Ctrl-C ends this."
