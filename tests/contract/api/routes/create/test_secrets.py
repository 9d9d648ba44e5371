"""Secrets in the body of a create: what is accepted, what is stored, and what is shown."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from support.http.served_api import CREATE_BODY, ServedApi
from support.http.service import Answer, error_of

from corral.domain.errors import Failure
from corral.domain.lifecycle.phases import Phase
from corral.store.session.database import Database
from corral.views.instance import SECRETS_GONE

SECRET = {"TOKEN": "hf_0123456789"}


async def rows(database: Database, table: str) -> list[Any]:
    async with database.connection() as connection:
        found: list[Any] = await connection.fetch(f"SELECT * FROM {table}")  # noqa: S608  # a constant
        return found


async def keyed(api: ServedApi, key: str, **fields: object) -> Answer:
    body = {**CREATE_BODY, **fields}
    return await api.service.ask("POST", "/api/instances", json=body, headers={"Idempotency-Key": key})


async def test_names_are_shown_and_values_are_not(api: ServedApi, database: Database) -> None:
    """In the instance, and in the request to create another one like it, which has to give them again."""
    made = (await api.request_create(secrets=SECRET, env={"MODE": "train"})).json["instanceId"]
    shown = (await api.get(f"/api/instances/{made}")).json
    request = (await api.get(f"/api/instances/{made}/request")).json
    (row,) = await rows(database, "corral_secrets")

    assert (shown["secretNames"], shown["env"]) == (["TOKEN"], {"MODE": "train"})
    assert (request["secretNames"], request["env"]) == (["TOKEN"], {"MODE": "train"})
    assert "secrets" not in request
    assert row["instance_id"] == made
    assert b"hf_0123456789" not in row["content"]


async def test_a_create_without_secrets_writes_no_row(api: ServedApi, database: Database) -> None:
    """An empty object has none, either; a dry run records nothing."""
    nothing: list[dict[str, object]] = [{}, {"secrets": {}}, {"secrets": None}]
    for fields in nothing:
        assert (await api.request_create(**fields)).status == 201
    dry = await api.service.ask("POST", "/api/instances?dryRun=true", json={**CREATE_BODY, "secrets": SECRET})

    assert dry.status == 200
    assert await rows(database, "corral_secrets") == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"secrets": {"A B": "hush"}}, "a name must begin"),
        ({"secrets": {"A": 7}}, "a value must be a text"),
        ({"secrets": {"A": "hush\0"}}, "a value must be a text"),
        ({"secrets": {"A": "hush" * 1024}}, "a value must be a text"),
        ({"secrets": ["hush"]}, "must be an object"),
        ({"secrets": "hush"}, "must be an object"),
        ({"secrets": {"A": "hush", "B": "x"}, "env": {"A": "hush"}}, "must not have a name that env has: A"),
        ({"secrets": {f"A{n}": "hush" for n in range(101)}}, "there are 101 names, and 100 are allowed"),
        (
            {"secrets": {f"A{n}": "hush" for n in range(60)}, "env": {f"B{n}": "" for n in range(41)}},
            "with env there are 101 names, and 100 are allowed",
        ),
    ],
)
async def test_invalid_secrets_are_refused_without_their_values(
    api: ServedApi, database: Database, fields: dict[str, object], message: str
) -> None:
    """Together with every other problem; nothing is recorded."""
    answer = await api.request_create(gpuNum=9, **fields)
    problems = {each["field"]: each for each in error_of(answer, 400, "VALIDATION_ERROR")["validationErrors"]}

    assert set(problems) == {"gpuNum", "secrets"}
    assert problems["secrets"]["code"] == "INVALID_SECRETS"
    assert message in problems["secrets"]["message"]
    assert b"hush" not in answer.body
    assert await rows(database, "corral_instances") == []


async def test_the_template_counts_for_the_limit(api: ServedApi) -> None:
    """The provider takes 100 variables; the template of the test has one of its own."""
    answer = await api.request_create(secrets={f"A{n}": "" for n in range(100)})
    (problem,) = error_of(answer, 400, "VALIDATION_ERROR")["validationErrors"]

    assert problem["code"] == "INVALID_ENV"


async def test_a_key_belongs_to_one_secret_and_its_hash_does_not_disclose_it(
    api: ServedApi, database: Database
) -> None:
    """A copy of the database is not enough to try guesses: the hash needs the key file."""
    first, again = [await keyed(api, "k", secrets={"PIN": "1234"}) for _ in range(2)]
    other = await keyed(api, "k", secrets={"PIN": "1235"})
    (row,) = await rows(database, "corral_idempotency")
    body = b'{"name": "trainer", "productName": "RTX 4090 24GB", "templateId": 204511, "gpuNum": "2"'
    guess = [b"POST", b"/api/instances", b"", body + b', "secrets": {"PIN": "1234"}}']
    plain = sha256(b"".join(len(part).to_bytes(8, "big") + part for part in guess)).digest()
    key = api.service.engine.runtime.secret_key.load()

    assert (first.status, again.json) == (201, first.json)
    error_of(other, 409, "IDEMPOTENCY_KEY_REUSED")
    assert key is not None
    assert row["fingerprint"] == key.digest(plain), "otherwise the guess below proves nothing"
    assert row["fingerprint"] != plain
    assert len(await rows(database, "corral_secrets")) == 1


async def test_a_name_spelled_with_an_escape_does_not_get_a_plain_hash(api: ServedApi, database: Database) -> None:
    """JSON allows it for every letter of `secrets`; the field is the same."""
    body = json.dumps({**CREATE_BODY, "secrets": {"PIN": "1234"}}).replace('"secrets"', '"s\\u0065crets"').encode()
    headers = {"Idempotency-Key": "k", "content-type": "application/json"}
    answer = await api.service.ask("POST", "/api/instances", data=body, headers=headers)
    (row,) = await rows(database, "corral_idempotency")
    parts = [b"POST", b"/api/instances", b"", body]
    plain = sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()

    assert answer.status == 201
    assert len(await rows(database, "corral_secrets")) == 1
    assert row["fingerprint"] != plain


async def test_a_key_file_that_others_can_read_refuses_secrets_and_nothing_else(
    api: ServedApi, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to do; creates without secrets are served."""
    bad = tmp_path / "secret.key"
    bad.write_text("x")
    bad.chmod(0o644)
    monkeypatch.setattr(api.service.engine.runtime.secret_key, "path", bad)

    error = error_of(await api.request_create(secrets=SECRET), 500, "SECRET_KEY_UNUSABLE")
    error_of(await keyed(api, "k", secrets=SECRET), 500, "SECRET_KEY_UNUSABLE")

    assert "chmod 600" in error["message"]
    assert (await api.request_create()).status == 201
    assert len(await rows(database, "corral_instances")) == 1


async def test_a_lost_key_file_is_not_replaced_while_creates_need_it(api: ServedApi) -> None:
    """A second key would leave one create or the other without its key, also after the file is restored."""
    assert (await api.request_create(secrets=SECRET)).status == 201
    file = api.service.engine.runtime.secret_key.path
    saved = file.rename(file.with_name("saved"))

    error = error_of(await api.request_create(name="second", secrets=SECRET), 500, "SECRET_KEY_UNUSABLE")
    assert "1 creates wait with secrets of key" in error["message"]
    assert not file.exists()
    assert (await api.request_create(name="third")).status == 201
    saved.rename(file)
    assert (await api.request_create(name="second", secrets=SECRET)).status == 201


async def test_a_failure_says_that_the_secrets_are_gone(api: ServedApi) -> None:
    """A create like it has to give them again."""
    made = (await api.request_create(secrets=SECRET)).json["instanceId"]
    await api.change(made, phase=Phase.FAILED, failure=Failure(code="PROVISIONING_FAILED", message="no"))

    shown = (await api.get(f"/api/instances/{made}")).json
    assert shown["error"]["nextStep"].endswith(SECRETS_GONE)
