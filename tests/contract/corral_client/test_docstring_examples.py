"""The examples in the SDK's docstrings are run as they stand, on the real service; what they promise must come."""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import doctest
import inspect
import io
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.processes.process import Running, quicken, serving

import corral_client
from corral_client import (
    AsyncClient,
    Client,
    client,
    events,
    instances,
    records,
    resources,
)
from corral_client.sync import client as sync_client
from corral_client.sync import instances as sync_instances
from corral_client.sync import records as sync_records
from corral_client.sync import resources as sync_resources

pytestmark = pytest.mark.asyncio(loop_scope="module")

BLOCKING = (sync_client, sync_instances, sync_records, sync_resources)
AWAITED = (client, events, instances, records, resources)
AS_ELSEWHERE = {"InstanceHandle", "LoopThread"}
"""Classes with methods that say "as `client.instances.…`", or that are not for callers."""


def documented(*modules: Any) -> Iterator[tuple[str, str]]:
    """Every public class and method of *modules* with its docstring."""
    for module in modules:
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ != module.__name__ or name.startswith("_"):
                continue
            yield name, inspect.getdoc(kind) or ""
            for method, function in inspect.getmembers(kind, inspect.isfunction):
                if not method.startswith("_"):
                    yield f"{name}.{method}", inspect.getdoc(function) or ""


def examples(*modules: Any) -> list[Any]:
    found = [(name, doc) for name, doc in documented(*modules) if ">>>" in doc]
    return [pytest.param(doc, id=name) for name, doc in found]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corral(short_dir: Path) -> AsyncGenerator[Running]:
    data_dir = short_dir / "examples" / ".corral"
    async with serving(data_dir, LOG_LEVEL="warning") as running:
        await quicken(data_dir)
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def machine(corral: Running) -> None:
    """What every example takes for granted: one machine called `train`, ready."""
    async with AsyncClient(corral.address) as client:
        live = [i async for i in client.instances.list(name="train") if i.status not in {"terminated", "deleting"}]
        if not live:
            order = {"name": "train", "product_name": "RTX 4090 24GB", "template_id": "107672"}
            handle = await client.instances.create(**order)  # type: ignore[arg-type]  # the keys of Order
        elif live[0].status == "exited":
            handle = await client.instances.start(live[0].id)
        else:
            handle = client.instances.handle(live[0].id)
        await handle.wait_until_ready(timeout=60)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("doc", examples(*BLOCKING))
async def test_examples_without_an_event_loop(corral: Running, doc: str) -> None:
    """As in a script, on a thread of its own."""

    def run() -> None:
        with Client(corral.address) as client:
            for example in doctest.DocTestParser().get_examples(doc):
                with contextlib.redirect_stdout(io.StringIO()) as said:
                    eval(_compiled(example), _names(corral, client))  # noqa: S307  # our own docstring
                assert said.getvalue() == example.want, example.source

    names.clear()
    await asyncio.to_thread(run)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("doc", examples(*AWAITED))
async def test_examples_with_an_event_loop(corral: Running, doc: str) -> None:
    """As in `python -m asyncio`."""
    names.clear()
    async with AsyncClient(corral.address) as client:
        for example in doctest.DocTestParser().get_examples(doc):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                running = eval(_compiled(example), _names(corral, client))  # noqa: S307  # our own docstring
                if inspect.isawaitable(running):
                    await running
            assert said.getvalue() == example.want, example.source


async def test_every_method_has_an_example() -> None:
    """An editor's help shows how it is used."""
    without = {name for name, doc in documented(*BLOCKING) if ">>>" not in doc}

    methods = {name for name in without if "." in name and name.split(".")[0] not in AS_ELSEWHERE}
    assert methods == {"Client.close"}


names: dict[str, Any] = {}
"""What the example that runs has made so far."""


def _names(corral: Running, client: object) -> dict[str, Any]:
    names.setdefault("client", client)
    names.setdefault("url", corral.address)
    for name in ("Client", "AsyncClient"):
        names.setdefault(name, getattr(corral_client, name))
    names.setdefault("__builtins__", builtins)
    return names


def _compiled(example: doctest.Example) -> Any:
    return compile(example.source, "<docstring>", "single", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
