"""What cannot work is refused at the start: one sentence, an exit code, never a traceback."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from support.database.pooler import pooling
from support.http.servers import unused_port
from support.processes.process import clean_environment, run

from corral.store.server.target import DatabaseTarget


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"DATABASE_URL": "postgresql://u:hunter2@127.0.0.1:{port}/x"}, 3, "cannot be reached"),
        ({"DATABASE_URL": "postgresql://u:hunter2@127.0.0.1:port/x"}, 2, "DATABASE_URL cannot be read"),
        ({"DATABASE_URL": "postgresql://{user}@/missing?host={host}"}, 2, 'database "missing" does not exist'),
        ({"DATABASE_URL": "postgresql://missing@/{name}?host={host}"}, 2, "the server refuses the login"),
        ({"CORRAL_DATA_DIR": "/proc/corral"}, 2, "CORRAL_DATA_DIR=/proc/corral cannot be used"),
        ({"CORRAL_DATA_DIR": "{file}/data"}, 2, "/data cannot be used: Not a directory"),
        ({"NOVITA_API_KEY": "sk-hunter2\nX: y"}, 2, "NOVITA_API_KEY=(secret, not shown)"),
        ({"NOVITA_API_KEY": "sk", "NOVITA_API_BASE_URL": "http://provider.example"}, 2, "accepted is an https://"),
        ({"PORT": "x"}, 2, "PORT='x'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
async def test_it_refuses_to_start(
    tmp_path: Path, server: DatabaseTarget, settings: dict[str, str], code: int, words: str
) -> None:
    """`corral serve` with a setting that can never work."""
    file = tmp_path / "file"
    file.touch()
    names = {"port": unused_port(), "user": server.user, "name": "postgres", "host": server.host, "file": file}
    given = {name: value.format(**names) for name, value in settings.items()}
    found, output, errors = await run("serve", "--port=0", cwd=tmp_path, **given)

    assert found == code, errors
    assert words in errors
    assert errors.startswith("corral: ")
    assert errors.count("\n") == 1
    assert "Traceback" not in output + errors
    assert "hunter2" not in output + errors


async def test_it_refuses_transaction_pooling(tmp_path: Path, target: DatabaseTarget) -> None:
    """Every command that opens the database does."""
    async with pooling(target, "transaction", 5) as url:
        served = await run("serve", "--port=0", cwd=tmp_path, DATABASE_URL=url)
        migrated = await run("migrate", cwd=tmp_path, DATABASE_URL=url)

    assert (served[0], migrated[0]) == (2, 2)
    assert "transaction pooling" in served[2]
    assert served[2].count("\n") == 1


async def test_a_dotenv_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """An editor may have saved it in another encoding."""
    (tmp_path / ".env").write_bytes("PORT=0\nDEFAULT_REGION=é\n".encode("latin-1"))
    found, _, errors = await run("config", cwd=tmp_path)

    assert (found, errors) == (2, "corral: .env cannot be read: byte 23 is not UTF-8\n")


async def test_a_secret_file_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """An empty one too: without a key the simulator would replace the provider, and machines would seem gone."""
    unusable = {"empty": b" \n", "binary": b"sk-\xff", "long": b"s" * 65_537}
    for name, content in unusable.items():
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe")
    files = ("missing", *unusable, ".", "pipe")
    found = [await run("config", cwd=tmp_path, NOVITA_API_KEY_FILE=name) for name in files]

    assert {code for code, _, _ in found} == {2}
    assert [errors for _, _, errors in found] == [
        "corral: NOVITA_API_KEY_FILE=missing cannot be read: No such file or directory\n",
        "corral: NOVITA_API_KEY_FILE=empty is empty\n",
        "corral: NOVITA_API_KEY_FILE=binary cannot be read: byte 4 is not UTF-8\n",
        "corral: NOVITA_API_KEY_FILE=long is too long: accepted are 65536 bytes\n",
        *[f"corral: NOVITA_API_KEY_FILE={name} is not a file\n" for name in (".", "pipe")],
    ]


async def test_a_secret_file_may_be_a_link(tmp_path: Path) -> None:
    """As Kubernetes mounts them: a link to a file below another link."""
    (tmp_path / "version").mkdir()
    (tmp_path / "version" / "key").write_text("sk-linked\n")
    (tmp_path / "data").symlink_to("version")
    (tmp_path / "key").symlink_to("data/key")
    code, shown, errors = await run("config", "NOVITA_API_KEY", cwd=tmp_path, NOVITA_API_KEY_FILE="key")

    assert (code, errors) == (0, "")
    assert "NOVITA_API_KEY_FILE" in shown


async def test_a_command_loads_no_part_of_the_service(tmp_path: Path) -> None:
    """The service's parts take half a second to load; `corral ls` needs the SDK, the settings and its output."""
    program = "import sys, corral.cli.all_commands; print(*(m for m in sys.modules if m.startswith('corral.')))"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=tmp_path, env=clean_environment(), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    rooms = {tuple(name.split(".")[1:3]) for name in output.decode().split()}

    assert process.returncode == 0
    assert {room[0] for room in rooms} == {"app", "base", "cli", "domain"}
    assert {room[1] for room in rooms if room[0] == "app" and len(room) > 1} == {"role"}
    assert not {("domain", "observation"), ("domain", "instance"), ("domain", "lifecycle")} & rooms


async def test_the_service_loads_no_other_command(tmp_path: Path) -> None:
    """It would keep them in memory for as long as it runs."""
    program = "import sys, corral.cli.main; sys.argv = ['corral', 'serve', '--help']; sys.exit = print; "
    program += "corral.cli.main.main(); print(*sys.modules)"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=tmp_path, env=clean_environment(), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    loaded = {name for name in output.decode().split() if name.startswith("corral.cli.commands.")}

    assert "Run the service" in output.decode()
    assert loaded == {"corral.cli.commands.service", "corral.cli.commands.service.serve"}
