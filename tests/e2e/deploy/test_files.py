"""The files in `deploy/` are valid, agree with each other, and name settings that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.suite.pages import ROOT

import corral
from corral.base.settings.configuration import FILE_SUFFIX, load, secret_names

DEPLOY = ROOT / "deploy"
OLDEST_KUBERNETES = "1.30"


def compose() -> dict[str, Any]:
    """The compose file, with its merged parts."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def kubernetes() -> list[dict[str, Any]]:
    """The objects of the Kubernetes example."""
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def pods() -> Iterator[dict[str, Any]]:
    """The specification of each pod."""
    return (thing["spec"]["template"]["spec"] for thing in kubernetes() if thing["kind"] == "Deployment")


def judged(program: str, *arguments: str | Path) -> int:
    """The exit code of a validator."""
    command = [Path(sys.executable).with_name(program), *arguments]
    return subprocess.run(command, capture_output=True, check=False).returncode


def by_compose_schema(file: Path) -> int:
    return judged("check-jsonschema", "--builtin-schema", "vendor.compose-spec", file)


def by_kubernetes_schemas(file: Path) -> int:
    return judged("kubernetes-validate", "--strict", "--kubernetes-version", OLDEST_KUBERNETES, file)


@pytest.mark.parametrize(
    ("name", "judge", "change"),
    [
        ("compose.yaml", by_compose_schema, ("stop_grace_period", "stop_grace_perod")),
        ("kubernetes.yaml", by_kubernetes_schemas, ("enableServiceLinks", "enableServiceLink")),
    ],
)
def test_the_file_is_valid_by_its_schema(tmp_path: Path, name: str, judge: Any, change: tuple[str, str]) -> None:
    """And the validator finds a name that is written wrongly."""
    text = (DEPLOY / name).read_text()
    assert change[0] in text
    (tmp_path / name).write_text(text.replace(*change))

    assert judge(DEPLOY / name) == 0
    assert judge(tmp_path / name) != 0


def test_every_file_runs_this_release() -> None:
    """An image of another release may not know the settings."""
    image = f"corral:{corral.__version__}"
    images = {service["image"] for service in compose()["services"].values() if "build" in service}
    images |= {container["image"] for pod in pods() for container in pod["containers"]}

    assert images == {image}
    assert f"-t {image} ." in (DEPLOY / "Dockerfile").read_text()


def test_every_setting_that_is_named_exists() -> None:
    """Corral refuses to start with an unknown `CORRAL_*` name, and ignores others."""
    given: set[str] = set()
    for service in compose()["services"].values():
        given |= set(service["environment"]) if "build" in service else set()
    for thing in kubernetes():
        given |= set(thing["data"]) if thing["kind"] == "ConfigMap" else set()
    given |= set(re.findall(r"^Environment=(\w+)=", (DEPLOY / "corral.service").read_text(), re.MULTILINE))
    (declared,) = re.findall(r"^ENV (.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    given |= {word.partition("=")[0] for word in declared.split()} - {"PATH"}
    known = {shown.name for shown in load({}).shown} | {name + FILE_SUFFIX for name in secret_names()}

    assert len(given) > 4
    assert given - known == set()


def test_no_pod_gets_the_variables_of_services() -> None:
    """Those of a Service named `corral` begin with `CORRAL_`, and Corral would refuse to start."""
    assert [pod["enableServiceLinks"] for pod in pods()] == [False, False]


def test_the_image_contains_only_what_its_file_copies() -> None:
    """The data directory, `.env` and the secrets beside the compose file never reach an engine."""
    copied = {
        word.partition("/")[0]
        for line in re.findall(r"^COPY (?!--from)(.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
        for word in line.split()[:-1]
    }
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in ignored if line.startswith("!")}

    assert "*" in ignored
    assert sent == copied
    assert all((ROOT / name).exists() for name in copied)
