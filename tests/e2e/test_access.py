"""API keys on the installed command: keys made in the shell, a public address, every route."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Final

import aiohttp
import pytest
import pytest_asyncio
from support.clock.waiting import until
from support.http.service import Answer, error_of
from support.processes.process import Running, run, serving
from support.processes.terminal import on_terminal

pytestmark = pytest.mark.asyncio(loop_scope="module")

PUBLIC = ("--host", "0.0.0.0")
ROLES: Final = ("viewer", "operator", "admin")

NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "open": (
        "GET /",
        "GET /dashboard/fleet/app.js",
        "GET /docs",
        "GET /schema/openapi.json",
        "GET /health",
        "GET /health/live",
        "GET /health/ready",
    ),
    "viewer": (
        "GET /metrics",
        "GET /api/metrics",
        "GET /api/metrics/history",
        "GET /api/jobs",
        "GET /api/jobs/stats",
        "GET /api/jobs/{job_id}",
        "GET /api/products",
        "GET /api/products/optimal",
        "GET /api/templates",
        "GET /api/templates/{template_id}",
        "GET /api/volumes",
        "GET /api/cache/stats",
        "GET /api/cache/{name}/stats",
        "GET /api/events",
        "GET /api/events/stream",
        "GET /api/instances",
        "GET /api/instances/comprehensive",
        "GET /api/instances/auto-stop/stats",
        "GET /api/instances/{instance_id}",
        "GET /api/instances/{instance_id}/events",
        "GET /api/instances/{instance_id}/operations",
        "GET /api/instances/{instance_id}/metrics",
        "GET /api/utilization",
        "GET /api/account",
        "GET /api/budgets",
        "GET /api/budgets/{budget_name}",
        "GET /api/costs",
        "GET /api/costs/export",
        "GET /api/costs/forecast",
        "GET /api/costs/reconciliations",
        "GET /api/operations/{operation_id}",
        "GET /api/orphans",
        "GET /api/webhooks/deliveries",
        "GET /api/whoami",
    ),
    "operator": (
        "GET /api/instances/{instance_id}/request",
        "GET /api/instances/{instance_id}/credentials",
        "GET /api/instances/{instance_id}/logs",
        "GET /api/instances/{instance_id}/image-pull",
        "POST /api/instances",
        "DELETE /api/instances/{instance_id}",
        "PATCH /api/instances/{instance_id}",
        "PATCH /api/instances/{instance_id}/lease",
        "POST /api/instances/{instance_id}/extend",
        "PUT /api/instances/{instance_id}/last-used",
        "POST /api/instances/auto-stop/trigger",
        "POST /api/instances/{instance_id}/adopt",
        "POST /api/instances/{instance_id}/start",
        "POST /api/instances/{instance_id}/stop",
        "POST /api/instances/{instance_id}/restart",
        "POST /api/instances/start",
        "POST /api/instances/stop",
        "POST /api/instances/delete",
        "POST /api/instances/sync",
        "POST /api/webhooks/deliveries/{delivery_id}/redeliver",
    ),
    "admin": (
        "GET /api/audit",
        "GET /api/keys",
        "POST /api/keys",
        "DELETE /api/keys/{key_id}",
        "GET /api/settings",
        "POST /api/instances/stop-all",
        "PUT /api/budgets/{budget_name}",
        "DELETE /api/budgets/{budget_name}",
        "POST /api/costs/reconciliations",
        "POST /api/jobs/cleanup",
        "POST /api/jobs/pause",
        "POST /api/jobs/resume",
        "POST /api/cache/clear",
        "POST /api/cache/cleanup",
        "DELETE /api/cache/{name}/{key}",
    ),
}
"""The least role that may call each route. A route that is not here fails the test: decide, and add it."""

ALLOWED: Final = {"open": ("none", "bad", *ROLES), "viewer": ROLES, "operator": ROLES[1:], "admin": ROLES[2:]}
HIDDEN: Final = {"GET /", "GET /dashboard/fleet/app.js", "GET /docs", "GET /schema/openapi.json"}
"""What the OpenAPI document does not list."""


@pytest.fixture(scope="module")
def data_dir(short_dir: Path) -> Path:
    home = short_dir / "access"
    home.mkdir()
    return home / ".corral"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keys(data_dir: Path) -> dict[str, str]:
    """A key of each role, made while no service runs."""
    made = {}
    for role in ROLES:
        code, output, errors = await run("keys", "create", f"test-{role}", "--role", role, cwd=data_dir.parent)
        assert code == 0, errors
        made[role] = output.strip()
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["loopback", "public"])
async def bound(
    request: pytest.FixtureRequest, data_dir: Path, keys: dict[str, str]
) -> AsyncGenerator[tuple[str, Running]]:
    assert keys
    async with serving(data_dir, *(PUBLIC if request.param == "public" else ())) as corral:
        corral.address = corral.address.replace("0.0.0.0", "127.0.0.1")
        yield request.param, corral


async def test_other_machines_are_not_served_before_a_key_exists(short_dir: Path) -> None:
    """A public port without a key is refused; one sentence says what to do, and then it works."""
    home = short_dir / "unkeyed"
    home.mkdir()
    refused = await run("serve", *PUBLIC, "--port", "0", cwd=home)
    api_refused = await run("serve", *PUBLIC, "--port", "0", "--role", "api", cwd=home)

    assert refused[0] == api_refused[0] == 2
    assert (
        refused[2]
        == api_refused[2]
        == (
            "corral: HOST=0.0.0.0 can be reached from other machines and there is no API key yet: "
            "make one with `corral keys create NAME --role admin`, or use HOST=127.0.0.1\n"
        )
    )
    async with serving(home / ".corral", *PUBLIC, "--role", "worker") as worker:
        worker.address = worker.address.replace("0.0.0.0", "127.0.0.1")
        assert (await worker.ask("GET", "/health/live")).status == 200
        error_of(await worker.ask("GET", "/metrics"), 401, "UNAUTHORIZED")
        error_of(await worker.ask("GET", "/api/jobs"), 404, "NOT_FOUND")

    assert (await run("keys", "create", "boss", "--role", "admin", cwd=home))[0] == 0
    async with serving(home / ".corral", *PUBLIC) as corral:
        corral.address = corral.address.replace("0.0.0.0", "127.0.0.1")
        assert await corral.is_ready()


@pytest.mark.parametrize("origins", ["*", "https://ops.example,*", "https://*", "null"])
async def test_every_origin_is_not_allowed_where_no_key_is_needed(short_dir: Path, origins: str) -> None:
    """Every web page could then use the service as its administrator."""
    code, _, errors = await run("serve", "--port", "0", cwd=short_dir, ALLOWED_ORIGINS=origins)

    assert code == 2
    assert re.fullmatch(r"corral: ALLOWED_ORIGINS=\S+ would let every web page use this Corral, .*\n", errors)


async def test_every_route_admits_the_right_roles(bound: tuple[str, Running], keys: dict[str, str]) -> None:
    """Every route, with no key, a wrong one and one of each role, on both kinds of address."""
    where, corral = bound
    schema = (await corral.ask("GET", "/schema/openapi.json")).json
    served = {f"{method.upper()} {path}" for path, methods in schema["paths"].items() for method in methods}
    listed = {route for routes in NEEDED.values() for route in routes}
    headers = {
        "none": {},
        "bad": {"X-API-Key": "corral_" + "0" * 43},
        **{role: {"Authorization": f"Bearer {key}"} for role, key in keys.items()},
    }
    wrong = []
    for needed, routes in NEEDED.items():
        for route in routes:
            for caller, sent in headers.items():
                status = await _status(corral, route, sent)
                allowed = caller in ALLOWED[needed] or (caller == "none" and where == "loopback")
                expected = "let in" if allowed else 401 if caller in {"none", "bad"} else 403
                if ("let in" if status not in {401, 403} else status) != expected:
                    wrong.append(f"{route} {caller}: {status}, not {expected}")

    assert served ^ (listed - HIDDEN) == set()
    assert wrong == []


async def test_a_revoked_key_is_refused_while_the_service_runs(bound: tuple[str, Running], data_dir: Path) -> None:
    """Made, used and revoked from another process; only what no one can call with is shown or stored."""
    _, corral = bound
    home = data_dir.parent
    made = json.loads((await run("keys", "create", "guest", "--json", cwd=home))[1])
    sent = {"X-API-Key": made["key"]}

    async def is_let_in() -> bool:
        return (await corral.ask("GET", "/api/jobs", headers=sent)).status == 200

    await until(is_let_in, what="the new key's first answer")
    listed = (await run("keys", "ls", cwd=home))[1]
    assert re.search(rf"{made['id']} +guest +viewer +{made['prefix']}\.\.\.", listed)
    taken = await run("keys", "create", "guest", cwd=home)
    assert (taken[0], taken[2]) == (
        1,
        "corral: there is a key named 'guest': revoke it first, or choose another name\n",
    )
    assert (await run("keys", "revoke", "guest", cwd=home))[1] == f"{made['id']} (guest) is revoked\n"

    async def is_refused() -> bool:
        return (await corral.ask("GET", "/api/jobs", headers=sent)).status == 401

    await until(is_refused, within=9, what="the revocation, before the cached key expires")
    gone = await run("keys", "revoke", "guest", cwd=home)
    assert (gone[0], gone[2]) == (1, "corral: no key in use is called 'guest'; `corral keys ls` lists all\n")
    assert made["key"] not in "".join(corral.lines) + listed


async def test_the_shell_uses_the_key_of_its_environment(
    bound: tuple[str, Running], keys: dict[str, str], data_dir: Path
) -> None:
    """CORRAL_API_KEY is for callers; the service itself does not mind finding it."""
    where, corral = bound
    home = data_dir.parent
    command = ("ls", "--json", "--url", corral.address)
    without = await run(*command, cwd=home)
    known = await run(*command, cwd=home, CORRAL_API_KEY=keys["viewer"])
    unknown = await run(*command, cwd=home, CORRAL_API_KEY="corral_wrong")
    listed = await run("keys", "ls", "--json", cwd=home, CORRAL_API_KEY=keys["viewer"])
    both = {"CORRAL_URL": corral.address, "CORRAL_API_KEY": keys["viewer"]}
    by_environment = await run("ls", "--json", cwd=home, **both)
    by_sdk = await run_python(
        "from corral_client import Client; c = Client(); print(list(c.instances.list())); c.close()", home, both
    )

    assert (by_environment[0], json.loads(by_environment[1])) == (0, [])
    assert by_sdk == (0, "[]\n")
    assert without[0] == (0 if where == "loopback" else 1)
    assert (known[0], json.loads(known[1])) == (0, [])
    assert unknown[0] == 1
    assert unknown[2].startswith("corral: this API key is not known, or was revoked; CORRAL_API_KEY or `corral login`")
    assert {key["name"] for key in json.loads(listed[1])} >= {"test-viewer", "test-admin"}


async def test_a_login_is_checked_stored_and_used_by_commands_and_programs(
    bound: tuple[str, Running], keys: dict[str, str], data_dir: Path, tmp_path: Path
) -> None:
    """A key that is refused is not stored; `logout` ends it."""
    where, corral = bound
    mine = {"XDG_CONFIG_HOME": str(tmp_path)}
    home, file = data_dir.parent, tmp_path / "corral" / "login.json"
    empty = await run("login", "", cwd=home, stdin=keys["operator"] + "\n", **mine)
    assert empty == (2, "", "corral: the address of the service is empty; nothing was stored\n")
    refused = await run("login", corral.address, cwd=home, stdin="corral_wrong\n", **mine)
    assert (refused[0], refused[1], file.exists()) == (1, "", False)
    assert refused[2] == "corral: this API key is not known, or was revoked; nothing was stored\n"

    async with on_terminal("login", corral.address, environ=mine) as terminal:
        await terminal.shows(f"API key for {corral.address}")
        terminal.type(keys["operator"] + "\n")
        assert await terminal.end() == 0
    assert f"Logged in to {corral.address} as test-operator, operator." in terminal.text
    assert keys["operator"] not in terminal.text
    assert file.stat().st_mode & 0o777 == 0o600

    who = await run("whoami", cwd=home, **mine)
    listed = await run("ls", "--json", cwd=home, **mine)
    viewer = await run("whoami", "--json", cwd=home, CORRAL_API_KEY=keys["viewer"], **mine)
    config = await run("config", "CORRAL_URL", "CORRAL_API_KEY", cwd=home, **mine)
    program = "from corral_client import Client; c = Client(); print(c.whoami().name); c.close()"
    by_sdk = await run_python(program, home, mine)
    out = await run("logout", cwd=home, **mine)
    again = await run("logout", cwd=home, **mine)

    assert who[1] == f"test-operator, operator at {corral.address} (from `corral login`)\n"
    assert (listed[0], json.loads(listed[1])) == (0, [])
    assert {name: json.loads(viewer[1])[name] for name in ("name", "role", "urlFrom", "keyFrom", "keyRequired")} == {
        "name": "test-viewer",
        "role": "viewer",
        "urlFrom": "login",
        "keyFrom": "environment",
        "keyRequired": where != "loopback",
    }
    assert [line.split()[:3] for line in config[1].splitlines()[1:]] == [
        ["CORRAL_URL", corral.address, "login"],
        ["CORRAL_API_KEY", "********", "login"],
    ]
    assert by_sdk == (0, "test-operator\n")
    assert (out[1], again[1]) == (f"Logged out of {corral.address}.\n", "You are not logged in.\n")
    assert not file.exists()


async def test_a_stop_notes_when_keys_were_last_used(short_dir: Path) -> None:
    """Within the minute in which uses are gathered, too."""
    home = short_dir / "used"
    home.mkdir()
    made = json.loads((await run("keys", "create", "guest", "--json", cwd=home))[1])
    async with serving(home / ".corral") as corral:
        assert (await corral.ask("GET", "/api/jobs", headers={"X-API-Key": made["key"]})).status == 200
        assert await corral.end(signal.SIGTERM) == 0
    (listed,) = json.loads((await run("keys", "ls", "--json", cwd=home))[1])

    assert made["lastUsedAt"] is None
    assert listed["lastUsedAt"] > made["createdAt"]


async def run_python(program: str, cwd: Path, environ: Mapping[str, str]) -> tuple[int, str]:
    """Run *program* with these variables only; answers its exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=cwd, env=dict(environ), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def _status(corral: Running, route: str, headers: Mapping[str, str]) -> int:
    """What a call is answered with; a stream's body is not waited for."""
    method, _, path = route.partition(" ")
    address = corral.address + re.sub(r"\{\w+\}", "none", path)
    async with aiohttp.ClientSession() as client, client.request(method, address, headers=headers) as response:
        if response.status >= 400 and "json" in response.content_type and not path.startswith("/health"):
            body = await response.read()
            sent = {name.lower(): value for name, value in response.headers.items()}
            answer = Answer(status=response.status, headers=sent, body=body)
            error_of(answer, response.status, answer.json["error"]["code"])
        return response.status
