"""Every example of the OpenAPI document is executed, and sends the request of its route."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from corral.api.openapi.document import operations

DOCUMENT: dict[str, Any] = msgspec.json.decode((Path(__file__).parents[4] / "docs/reference/openapi.json").read_bytes())
OPERATIONS = {operation["operationId"]: (path, method, operation) for path, method, operation in operations(DOCUMENT)}
KEY = "corral_example"


class EnoughSeen(Exception):  # noqa: N818  # ends a sample
    """The sample printed something; those that follow a stream would never end."""


@dataclass
class Echo:
    """A service that answers every request with the examples of the document."""

    url: str
    seen: list[tuple[str, str, bytes, str | None]] = field(default_factory=list)
    """Method, path, body and key of each request."""


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    """One for all samples, which run one after another."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, method = urlsplit(self.path).path, self.command.lower()
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            found.seen.append((method, path, body, self.headers.get("authorization")))
            kind, answer, status = _answer(path, method, _status_after(found.seen))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_DELETE = do_PUT = do_PATCH = do_GET  # noqa: N815  # names of the standard library

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing: the test's own output is enough."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Nothing: a sample that follows a stream hangs up."""

    server = Server(("127.0.0.1", 0), Handler)
    found = Echo(url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def _answer(path: str, method: str, then: str) -> tuple[str, bytes, int]:
    """The good response of the route that matches; that about an instance has the status *then*."""
    matching = [
        (len(route), operation)
        for route, asked, operation in OPERATIONS.values()
        if asked == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), path)
    ]
    [*_, (_, operation)] = sorted(matching, key=lambda pair: "{" not in _route_of(pair[1]))
    status, response = max((s, r) for s, r in operation["responses"].items() if int(s) < 400)
    media, content = next(iter(response["content"].items()))
    example = _example(content.get("schema", {}))
    if operation["operationId"] == "getInstance":
        example["status"] = then
    value = msgspec.json.encode(example)
    if media == "text/event-stream":
        value = b"id: 1\ndata: " + value + b"\n\n"
    return media, value, int(status)


def _status_after(seen: list[tuple[str, str, bytes, str | None]]) -> str:
    """What an instance becomes by the requests so far, so that a sample that waits for it ends."""
    if any(method == "delete" for method, *_ in seen):
        return "terminated"
    return "exited" if any(path.endswith("/stop") for _, path, *_ in seen) else "ready"


def _route_of(operation: dict[str, Any]) -> str:
    return OPERATIONS[operation["operationId"]][0]


def _example(schema: dict[str, Any]) -> Any:
    schema = next(iter(schema.get("anyOf", ())), schema)
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            return _example(schema[choice][0])
    if schema.get("examples"):
        return schema["examples"][0]
    return {name: _example(inner) for name, inner in schema.get("properties", {}).items()}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_sample_sends_the_request_of_its_route(name: str, echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    """In curl and in Python, with the key wherever one is needed, and a body that the route accepts."""
    path, method, operation = OPERATIONS[name]
    monkeypatch.setenv("CORRAL_URL", echo.url)
    monkeypatch.setenv("CORRAL_API_KEY", KEY)
    route = re.compile(re.sub(r"\{\w+\}", "[^/]+", path))

    for sample in operation["x-codeSamples"]:
        echo.seen.clear()
        if sample["lang"] == "shell":
            _run_curl(sample["source"])
        else:
            _run_python(sample["source"])
        sent = [one for one in echo.seen if one[0] == method and route.fullmatch(one[1])]
        assert sent, (sample["lang"], echo.seen)
        assert not operation["security"] or sent[0][3] == f"Bearer {KEY}"
        if operation.get("requestBody", {}).get("required"):
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert set(schema.get("required", ())) <= set(msgspec.json.decode(sent[0][2])), sample["lang"]


def _run_curl(source: str) -> None:
    done = subprocess.run(
        ["sh", "-c", source.replace("curl", "curl -sS --noproxy '*'", 1)],
        capture_output=True,
        check=False,
        env=dict(os.environ),  # noqa: TID251  # as a reader's shell
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def _run_python(source: str) -> None:
    def show(*_: object) -> None:
        raise EnoughSeen

    with pytest.raises(EnoughSeen):
        exec(compile(source, "sample", "exec"), {"print": show})  # noqa: S102  # this repository's own text
