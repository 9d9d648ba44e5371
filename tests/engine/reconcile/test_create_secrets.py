"""Secrets of a create: they reach the machine, are stored encrypted until then, and no machine is made without them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.engines.engine_steps import WITH_SECRETS, secrets_of
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind
from corral.engine.maintenance import retention
from corral.jobs.registry import JobId, JobRun
from corral.store.secrets.key_file import SecretKeyFile
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import sealed_secrets


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    async with stepped_engine(database, target) as engine:
        yield engine


async def is_stored(engine: SteppedEngine, instance_id: InstanceId) -> bool:
    async with engine.database.connection() as connection:
        return await sealed_secrets.load(connection, instance_id) is not None


def variables(engine: SteppedEngine) -> list[dict[str, str]]:
    """Of every machine that was ever made."""
    return [
        {env.key: env.value for env in machine.order.envs} for machine in engine.sim.simulator.world.instances.values()
    ]


async def change_row(engine: SteppedEngine, change: str) -> None:
    async with engine.database.connection() as connection:
        await connection.execute(f"UPDATE corral_secrets SET {change}")  # noqa: S608  # a constant


async def failed(engine: SteppedEngine, instance_id: InstanceId) -> Any:
    await engine.until(instance_id, Phase.FAILED, seconds=60)
    return (await engine.get(instance_id)).failure


async def test_the_machine_gets_its_secrets_and_they_are_then_stored_no_more(engine: SteppedEngine) -> None:
    """Beside the template's variables."""
    made = await engine.request_create(WITH_SECRETS)
    assert await is_stored(engine, made)
    await engine.until(made, Phase.STARTING)

    assert not await is_stored(engine, made)
    (has,) = variables(engine)
    assert secrets_of(await engine.get(made)).items() <= has.items()


async def test_a_create_in_doubt_keeps_its_secrets_for_the_next_call(engine: SteppedEngine) -> None:
    """The first call is lost before the provider executes it; the second one carries them, too."""
    engine.sim.fault("error_500", on="create")
    made = await engine.request_create(WITH_SECRETS)
    await engine.step()
    assert (await engine.get(made)).create_in_doubt
    assert await is_stored(engine, made)
    await engine.until(made, Phase.STARTING)

    (has,) = variables(engine)
    assert secrets_of(await engine.get(made)).items() <= has.items()
    assert not await is_stored(engine, made)


async def test_a_deleted_create_forgets_its_secrets_at_once(engine: SteppedEngine) -> None:
    """In the transaction of the request: nothing is created from then on."""
    made = await engine.request_create(WITH_SECRETS)
    await engine.request_delete(made)
    assert not await is_stored(engine, made)
    await engine.until(made, Phase.TERMINATED)
    assert variables(engine) == []


async def test_without_the_key_nothing_is_created_until_it_is_there(
    engine: SteppedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The instance says which key is missing; with the file in place the create continues without a restart."""
    own = engine.parts.runtime.secret_key
    made = await engine.request_create(WITH_SECRETS)
    key = own.load()
    assert key is not None
    elsewhere = tmp_path / "secret.key"
    monkeypatch.setattr(own, "path", elsewhere)
    await engine.step()
    waiting = (await engine.get(made)).waiting
    assert waiting is not None
    assert waiting.code == "SECRET_KEY_UNUSABLE"
    assert key.id in waiting.message
    assert str(elsewhere) in waiting.message

    SecretKeyFile(elsewhere).load_or_create()  # another key
    await engine.step(60)
    assert variables(engine) == []
    assert await is_stored(engine, made)

    monkeypatch.undo()
    await engine.until(made, Phase.STARTING)
    (has,) = variables(engine)
    assert secrets_of(await engine.get(made)).items() <= has.items()


async def test_without_the_key_it_fails_at_its_deadline(
    engine: SteppedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its secrets are then forgotten: no create call can follow."""
    made = await engine.request_create(WITH_SECRETS)
    monkeypatch.setattr(engine.parts.runtime.secret_key, "path", tmp_path / "none")
    failure = await failed(engine, made)

    assert failure.code == "SECRET_KEY_UNUSABLE"
    assert variables(engine) == []
    assert not await is_stored(engine, made)


@pytest.mark.parametrize(
    "change",
    ["content = substr(content, 1, 20)", "content = set_byte(content, 40, get_byte(content, 40) # 1)", "content = ''"],
)
async def test_damaged_secrets_fail_the_create(engine: SteppedEngine, change: str) -> None:
    """At once: waiting does not repair them."""
    made = await engine.request_create(WITH_SECRETS)
    await change_row(engine, change)

    assert (await failed(engine, made)).code == "SECRETS_LOST"
    assert variables(engine) == []


async def test_the_row_of_another_instance_is_refused(engine: SteppedEngine) -> None:
    """The id is authenticated: copying rows does not move secrets to another machine."""
    one, other = await engine.request_create(WITH_SECRETS), await engine.request_create(WITH_SECRETS)
    await change_row(engine, f"content = (SELECT content FROM corral_secrets WHERE instance_id = '{one}')")  # noqa: S608
    async with engine.database.connection() as connection:
        await connection.execute("DELETE FROM corral_secrets WHERE instance_id = $1", one)

    assert (await failed(engine, other)).code == "SECRETS_LOST"
    assert (await failed(engine, one)).code == "SECRETS_LOST"
    assert variables(engine) == []


async def test_the_sweep_removes_what_an_earlier_release_left(engine: SteppedEngine) -> None:
    """A process that does not know the table records an id and leaves the row; a create that waits keeps its row."""
    made, waits = await engine.request_create(WITH_SECRETS), await engine.request_create(WITH_SECRETS)
    async with engine.database.connection() as connection:
        await connection.execute("UPDATE corral_instances SET provider_id = 'p1' WHERE id = $1", made)
        await connection.execute(
            "UPDATE corral_instances SET record = jsonb_set(record, '{provider_id}', '\"p1\"') WHERE id = $1", made
        )
    sweep = retention.sweep_history(engine.database, engine.clock, timedelta(days=90))
    await sweep.handler(JobRun(id=JobId(1), type=sweep.name, payload={}, attempt=1))

    assert not await is_stored(engine, made)
    assert await is_stored(engine, waits)


async def test_a_stop_keeps_nothing_and_a_start_needs_nothing(engine: SteppedEngine) -> None:
    """The machine has its secrets itself: they are not needed to start it again."""
    made = await engine.request_create(replace(WITH_SECRETS, name="stopped"))
    await engine.until(made, Phase.READY)
    await engine.ask(OperationKind.STOP, made)
    await engine.until(made, Phase.EXITED)
    await engine.ask(OperationKind.START, made)
    await engine.until(made, Phase.READY)
    assert not await is_stored(engine, made)


def test_the_key_file_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    """In a directory that may not exist yet; two processes get the same key."""
    path = tmp_path / "data" / "secret.key"
    key = SecretKeyFile(path).load_or_create()

    assert path.stat().st_mode & 0o777 == 0o600
    assert SecretKeyFile(path).load_or_create().id == key.id
    assert [each.name for each in path.parent.iterdir()] == ["secret.key"]
