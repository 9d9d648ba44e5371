"""A program outside this repository that uses the SDK is type-checked in full."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

SCRIPT = '''
"""A job that waits for stock and deletes its machine whatever happens."""

import time

from corral_client import Client, CorralApiError, Instance, InstanceFailed, OutOfStock


def machine(client: Client, name: str) -> Instance:
    while True:
        try:
            job = client.instances.create(name=name, product_name="RTX 4090 24GB", template_id=107672, gpu_num=2)
        except OutOfStock as error:
            assert error.retryable
            time.sleep(60 if error.retry_after is None else error.retry_after)
        else:
            return job.wait_until_ready(on_progress=lambda progress: print(progress.instance.status))


with Client() as client:
    try:
        ready = machine(client, "train")
        price: float | None = ready.price
        print(ready.connection_details.ssh, price)
        own = client.instances.create(
            name="own",
            product_name="RTX 4090 24GB",
            image="ghcr.io/acme/train:1",
            env={"STEPS": "1000"},
            secrets={"HF_TOKEN": "…"},
            ports=["8080/http"],
            volumes=[{"id": client.volumes()[0].id, "mount": "/data"}],
            labels={"team": "vision"},
        )
        for line in client.instances.logs(own.id, source="system", follow=True):
            print(line.rstrip())
        login = client.instances.credentials(own.id)
        host: str | None = None if login.ssh is None else login.ssh.host
        busy: list[float | None] = [machine.gpu for machine in client.utilization().instances]
        percent: float | None = client.instances.image_pull(own.id).percent
        print(host, busy, percent, client.instances.metrics(own.id).gpu, client.instances.set_labels(own.id, {}).labels)
    except InstanceFailed as failed:
        print(failed.code)
    except CorralApiError as error:
        print(error.code, error.request_id)
    finally:
        for instance in client.instances.list(label=["team:vision"], q="own"):
            client.instances.delete(instance.id)
'''

MISTAKE = "from corral_client import Client\nClient().instances.create(name=1, product_name='x', template_id=1)\n"


@pytest.mark.parametrize("package", ["corral", "corral_client"])
def test_the_package_ships_its_types(package: str) -> None:
    """Without this file type checkers treat every name of the package as Any."""
    assert files(package).joinpath("py.typed").is_file()


def test_mypy_strict_accepts_a_script_and_finds_its_mistakes(tmp_path: Path) -> None:
    """As mypy sees an installed package: from another directory, without this repository's settings."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "mistake.py").write_text(MISTAKE)
    command = (sys.executable, "-m", "mypy", "--strict", "--config-file=", "script.py", "mistake.py")

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    found = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[0] for line in found] == ["mistake.py"], done.stdout + done.stderr
    assert 'Argument "name" to "create" of "Instances" has incompatible type "int"' in found[0]
