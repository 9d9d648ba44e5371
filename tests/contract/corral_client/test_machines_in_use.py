"""What the SDK sends and reads for machines in use: own images, labels, logs, logins and measurements."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from support.http.sample_instance import SAMPLE
from support.http.servers import HttpAnswers, http_answer, serving

from corral_client import AsyncClient, Client, Conflict
from corral_client.log_lines import LONGEST_LINE, lines_of

PASSWORD = "k3ep-0ut-of-logs"
MACHINE = {**SAMPLE, "templateId": None}


def answer(body: object, status: int = 200) -> bytes:
    return http_answer(status, msgspec.json.encode(body), content_type="application/json")


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncGenerator[tuple[AsyncClient, HttpAnswers]]:
    """A client of a service that gives *answers* in turn."""
    answers_given = HttpAnswers(*answers)
    async with (
        serving(answers_given) as port,
        AsyncClient(f"http://127.0.0.1:{port}", api_key="", max_retries=0) as client,
    ):
        yield client, answers_given


def asked(server: HttpAnswers, request: int = -1) -> tuple[str, str, list[tuple[str, str]]]:
    """Method, path and query of a request."""
    method, target, _ = server.heads[request].split("\r\n")[0].split(" ")
    address = urlsplit(target)
    return method, address.path, parse_qsl(address.query, keep_blank_values=True)


async def test_a_create_with_an_own_image_keeps_the_names_that_users_chose() -> None:
    """Names of variables and labels are not words of the API: `MY_VAR` must not become `MYVar`."""
    created = {
        "instanceId": "inst_1",
        "status": "creating",
        "estimatedReadyTime": "2026-01-01T00:00:00Z",
        "operationId": "op_1",
        "region": "CN-HK-01",
        "productId": "p",
        "price": 0.18,
    }
    async with answering(answer(created, 201)) as (client, server):
        await client.instances.create(
            name="train",
            product_name="RTX 4090 24GB",
            image="ghcr.io/acme/train:1",
            image_auth_id="auth_1",
            command="python train.py",
            entrypoint="",
            env={"MY_VAR": "1", "lower_case": ""},
            secrets={"HF_TOKEN": "x"},
            ports=["8080/http"],
            volumes=[{"id": "vol-1", "mount": "/data"}],
            min_cuda="12.4",
            labels={"team/sub_team": "vision"},
        )

    assert msgspec.json.decode(server.bodies[0]) == {
        "name": "train",
        "productName": "RTX 4090 24GB",
        "image": "ghcr.io/acme/train:1",
        "imageAuthId": "auth_1",
        "command": "python train.py",
        "entrypoint": "",
        "env": {"MY_VAR": "1", "lower_case": ""},
        "secrets": {"HF_TOKEN": "x"},
        "ports": ["8080/http"],
        "volumes": [{"id": "vol-1", "mount": "/data"}],
        "minCuda": "12.4",
        "labels": {"team/sub_team": "vision"},
    }


async def test_instances_are_read_by_labels_and_text() -> None:
    """Several labels are several parameters; the service decides."""
    labelled = MACHINE | {"labels": {"team": "vision"}, "volumes": [{"id": "v", "mount": "/data"}], "ports": None}
    async with answering(answer({"instances": [labelled], "total": 1})) as (client, server):
        found = [one async for one in client.instances.list(label=["team:vision", "env"], q="a b&c")]
        first = asked(server)
        [one async for one in client.instances.list(label="team")]

    assert (found[0].labels, found[0].volumes[0].mount, found[0].ports) == ({"team": "vision"}, "/data", None)
    assert first[:2] == ("GET", "/api/instances")
    assert first[2] == [("label", "team:vision"), ("label", "env"), ("q", "a b&c"), ("limit", "100")]
    assert ("label", "team") in asked(server)[2]


async def test_labels_are_replaced_as_a_whole() -> None:
    """The one request that changes them says all of them."""
    async with answering(answer(MACHINE), answer(MACHINE | {"labels": {"b_c": "2"}})) as (client, server):
        changed = await client.instances.set_labels("inst_1", {"b_c": "2"})

    assert changed.labels == {"b_c": "2"}
    assert asked(server)[:2] == ("PATCH", "/api/instances/inst_1")
    assert msgspec.json.decode(server.bodies[-1]) == {"labels": {"b_c": "2"}}


async def test_a_login_has_no_password_in_its_text_form() -> None:
    """A program that logs what it got, or a stack trace with local variables, must not publish it."""
    login = {
        "ssh": {
            "command": "ssh -p 22 root@h",
            "user": "root",
            "host": "h",
            "port": 22,
            "password": PASSWORD,
        },
        "webTerminal": {"address": "http://h/", "username": "u", "password": PASSWORD},
        "jupyter": {"address": f"http://h/?token={PASSWORD}"},
    }
    async with answering(answer(MACHINE), answer(login)) as (client, server):
        found = await client.instances.credentials("inst_1")

    assert asked(server)[:2] == ("GET", "/api/instances/inst_1/credentials")
    assert found.ssh is not None
    assert found.ssh.password == PASSWORD
    assert PASSWORD not in repr(found) + str(found) + repr([found.ssh, found.web_terminal, found.jupyter])


async def test_measurements_volumes_and_the_pull_of_an_image_are_typed() -> None:
    """One request each, with the names of Python."""
    at, series = "2026-01-01T00:00:00Z", [{"at": "2026-01-01T00:00:00Z", "value": 93.5}]
    gpus = [{"id": "0", "gpu": series, "gpuMemory": []}]
    empty: dict[str, Any] = {"gpuMemory": series, "cpu": [], "memory": [], "disk": []}
    metrics = {"instanceId": "inst_1", "from": at, "to": at, "intervalSeconds": 60, "gpu": series, "gpus": gpus}
    pull = {"pulling": True, "layers": 4, "layersComplete": 1, "bytesDone": 5, "bytesTotal": 10, "percent": 50}
    use = {"instances": [{"id": "inst_1", "name": "train", "gpu": 93, "cpu": None}], "sampledEvery": 60}
    volumes = {"volumes": [{"id": "v", "name": "data", "sizeGb": 100, "clusterId": "c", "region": "US"}]}
    answers = (MACHINE, metrics | empty, MACHINE, pull | {"line": "a1: Downloading"}, use, volumes)
    async with answering(*map(answer, answers)) as (client, server):
        measured = await client.instances.metrics("inst_1", minutes=30)
        pulled = await client.instances.image_pull("inst_1")
        used = await client.utilization()
        storage = await client.volumes()

    assert asked(server, 1) == ("GET", "/api/instances/inst_1/metrics", [("minutes", "30")])
    assert (measured.gpu[0].value, measured.gpu_memory[0].value, measured.gpus[0].gpu[0].value) == (93.5, 93.5, 93.5)
    assert measured.since == measured.until == measured.gpu[0].at
    assert asked(server, 3)[1] == "/api/instances/inst_1/image-pull"
    assert (pulled.pulling, pulled.percent, pulled.layers_complete) == (True, 50, 1)
    assert (used.instances[0].gpu, used.instances[0].cpu, used.sampled_every) == (93, None, 60)
    assert (storage[0].id, storage[0].size_gb, storage[0].cluster_id) == ("v", 100, "c")


async def test_a_log_is_read_line_by_line() -> None:
    """As a program without an event loop reads it; the service is asked for exactly what was asked for."""
    text = "one\ntwö\r\n\nlast without an end".encode()
    answers = HttpAnswers(answer(MACHINE), http_answer(200, text, content_type="text/plain; charset=utf-8"))

    def read(url: str) -> list[str]:
        with Client(url, api_key="") as client:
            return list(client.instances.logs("inst_1", source="system", tail=7))

    async with serving(answers) as port:
        lines = await asyncio.to_thread(read, f"http://127.0.0.1:{port}")

    assert lines == ["one", "twö", "", "last without an end"]
    query = [("source", "system"), ("tail", "7"), ("follow", "false")]
    assert asked(answers) == ("GET", "/api/instances/inst_1/logs", query)


async def test_a_followed_log_ends_with_the_reader() -> None:
    """A reader that has seen enough closes the connection; the service must not keep a follower for ever."""
    closed = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/logs" not in head:
            writer.write(answer(MACHINE))
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nfirst\nsec")
        await reader.read()
        closed.set()

    async with serving(endless) as port, AsyncClient(f"http://127.0.0.1:{port}", api_key="") as client:
        async with aclosing(client.instances.logs("inst_1", follow=True)) as lines:
            first = await anext(lines)
        await asyncio.wait_for(closed.wait(), 10)

    assert first == "first"


async def test_a_log_that_does_not_exist_yet_is_a_conflict() -> None:
    """With the code, so that a program can wait for it."""
    refused = answer({"error": {"code": "NO_LOGS_YET", "message": "there is no log yet"}}, 409)
    async with answering(answer(MACHINE), refused) as (client, _):
        with pytest.raises(Conflict) as conflict:
            [line async for line in client.instances.logs("inst_1")]

    assert conflict.value.code == "NO_LOGS_YET"


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
async def test_pieces_may_end_anywhere(size: int) -> None:
    """Also inside a character; bytes that are no text become the replacement character."""
    text = "añb€c\r\nd\n".encode() + b"\xff\n" + "😀".encode()

    async def pieces() -> AsyncGenerator[bytes]:
        for at in range(0, len(text), size):
            yield text[at : at + size]

    assert [line async for line in lines_of(pieces())] == ["añb€c", "d", "\ufffd", "😀"]


async def test_a_stream_without_line_ends_does_not_fill_the_memory() -> None:
    """It comes in lines of the longest length."""

    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(5):
            yield b"x" * LONGEST_LINE

    lengths = [len(line) async for line in lines_of(pieces())]

    assert set(lengths) == {LONGEST_LINE}
    assert sum(lengths) == 5 * LONGEST_LINE
