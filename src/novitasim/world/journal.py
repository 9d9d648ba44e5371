"""
The world on disk: one line of JSON per change, appended before the call is answered.

So an instance is never lost after its creation was answered, even by SIGKILL; a power cut may lose the last lines,
because nothing is flushed to the disk itself. On start the lines are read (the last one for a thing counts), and the
file is rewritten without outdated lines. Faults and call counts are not kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from novitasim import settings
from novitasim.world.account import Job, Network, RegistryAuth, SshPort, Storage, Template, Unbilled
from novitasim.world.instance import Instance
from novitasim.world.load import LoadHistory
from novitasim.world.world import PriceSet, Removed, StockSet, World

_T = TypeVar("_T")

# Rewritten when it has this many lines more than the world has things: rare enough to cost nothing.
_SLACK_LINES = 20_000


class JournalError(Exception):
    """The state file cannot be used; the message says which one and why."""


class Lock:
    """Prevents a second simulator on the same file. The lock of a killed process is free."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.lock")
        self._file: IO[bytes] | None = None

    def take(self) -> bool:
        """Try to lock the file; returns whether that succeeded."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._file = file
        return True

    def release(self) -> None:
        """Unlock the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class _Line(msgspec.Struct):
    at: float
    seq: int
    kind: str
    value: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(_Line).decode


class Journal:
    """The file of one world."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._lines = 0

    def load(self, world: World) -> float:
        """Restore the world from the file; returns its last instant (0 for a new one)."""
        if not self._path.exists():
            return 0.0
        latest = 0.0
        lines = self._path.read_bytes().split(b"\n")
        for number, raw in enumerate(lines, 1):
            if not raw:
                continue
            try:
                line = _decode_line(raw)
                _restore(world, line)
            except (msgspec.MsgspecError, settings.SettingError, KeyError) as error:
                if number == len(lines):
                    break  # torn by a kill in the middle of the write; its call was never answered
                raise JournalError(f"{self._path}, line {number}: {error}") from error
            latest = max(latest, line.at)
            world.seq = max(world.seq, line.seq)
        world.changes.clear()
        return latest

    def begin(self, world: World, now: float) -> None:
        """Rewrite the file with the present world, and keep it open for further changes."""
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f"{self._path.name}.new")
        things = _all(world)
        with fresh.open("wb") as file:
            file.writelines(_line(world, now, kind, value) for kind, value in things)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        self._file = self._path.open("ab", buffering=0)
        self._lines = len(things)

    def write(self, world: World, now: float) -> None:
        """Append the world's changes; after this returns, the process may be killed."""
        if self._file is None or not world.changes:
            world.changes.clear()
            return
        lines = b"".join(_line(world, now, kind, value) for kind, value in world.changes)
        self._file.write(lines)
        self._lines += len(world.changes)
        world.changes.clear()
        if self._lines > len(world.instances) + _SLACK_LINES:
            self.begin(world, now)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def _line(world: World, now: float, kind: str, value: object) -> bytes:
    return _encode({"at": now, "seq": world.seq, "kind": kind, "value": value}) + b"\n"


def _all(world: World) -> list[tuple[str, object]]:
    things: list[tuple[str, object]] = [("clock", None), ("settings", settings.overrides(world.settings))]
    things.append(("ports", world.workload_ports))
    things += [("stock", StockSet(*place, gpus)) for place, gpus in world.stock.overrides.items()]
    fresh = World()
    things += [
        ("price", PriceSet(product.id, product.price_e5, product.spot_e5))
        for product in world.catalog.products.values()
        if product != fresh.catalog.products[product.id]
    ]
    things += [("template_gone", Removed(key)) for key in fresh.templates if key not in world.templates]
    things += [("auth_gone", Removed(key)) for key in fresh.auths if key not in world.auths]
    things += [("storage_gone", Removed(key)) for key in fresh.storages if key not in world.storages]
    things += [(kind, thing) for kind, (table, _) in _tables(world).items() for thing in table.values()]
    things += [("instance", instance) for instance in world.instances.values()]
    return things


def _restore(world: World, line: _Line) -> None:
    match line.kind:
        case "clock":
            pass
        case "settings":
            world.settings = settings.changed(world.settings, _value(line, dict[str, object]))
        case "stock":
            world.set_stock(_value(line, StockSet))
        case "price":
            world.set_price(_value(line, PriceSet))
        case "ports" | "doors":  # "doors": written by earlier versions
            world.workload_ports = _value(line, dict[str, int])
        case "instance":
            world.put(_value(line, Instance), line.at, record=False)
        case _ if line.kind.endswith("_gone"):
            _tables(world)[line.kind.removesuffix("_gone")][0].pop(_value(line, Removed).id, None)
        case _:
            table, kind = _tables(world)[line.kind]
            thing = _value(line, kind)
            table[thing.id] = thing


def _tables(world: World) -> dict[str, tuple[dict[str, Any], type[Any]]]:
    return {
        "template": (world.templates, Template),
        "auth": (world.auths, RegistryAuth),
        "storage": (world.storages, Storage),
        "deleted_storage": (world.deleted_storages, Storage),
        "unbilled": (world.unbilled, Unbilled),
        "network": (world.networks, Network),
        "job": (world.jobs, Job),
        "load": (world.loads, LoadHistory),
        "ssh_port": (world.ssh_ports, SshPort),
    }


def _value(line: _Line, kind: type[_T]) -> _T:
    return msgspec.json.decode(line.value, type=kind)
