"""Templates read, and orders written from them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from corral.cloud.novita import templates, wire
from corral.cloud.port import Credentials, ProviderCreate
from corral.domain.container import VolumeMount
from corral.domain.errors import CloudRefusedError
from corral.domain.placement.catalog import (
    BillingMode,
    EnvironmentVariable,
    PortKind,
    Template,
    TemplatePort,
    TemplateTool,
)

GOOD: dict[str, Any] = {
    "Id": "204511",
    "name": "acme-app",
    "image": "docker.io/acme/app:1.2",
    "imageAuth": "3f0c9d0e",
    "startCommand": "serve",
    "entrypoint": "/run",
    "ports": [
        {"type": "http", "ports": [8080, "8888"]},
        {"type": "tcp", "ports": [22]},
        {"type": "tcp", "ports": None},
    ],
    "envs": [{"key": "MODE", "value": " prod "}, {"key": "N", "value": 3}, {"key": "ON", "value": True}],
    "tools": [{"name": "Jupyter", "describe": "", "port": "8889", "type": "http"}],
    "minCudaVersion": "12.4",
}


def read(**changes: object) -> Template:
    raw = msgspec.json.encode({**GOOD, **changes})
    return templates.template(msgspec.json.decode(raw, type=wire.Template), "204511")


def order(
    template: Template, credentials: Credentials | None = None, volumes: tuple[VolumeMount, ...] = ()
) -> dict[str, Any]:
    body = templates.order_body(
        ProviderCreate(
            name="corral-a1",
            product_id="4090.16c62g",
            cluster_id="us-ca-6",
            gpu_num=1,
            rootfs_gb=60,
            billing_mode=BillingMode.SPOT,
            template=template,
            credentials=credentials,
            volumes=volumes,
        )
    )
    found: dict[str, Any] = msgspec.json.decode(body)
    return found


def test_a_template_is_read_in_full() -> None:
    """Ports are grouped by type there, numbers may be strings, and values keep their spaces."""
    assert read() == Template(
        id="204511",
        name="acme-app",
        image="docker.io/acme/app:1.2",
        image_auth_id="3f0c9d0e",
        ports=(
            TemplatePort(port=8080, kind=PortKind.HTTP),
            TemplatePort(port=8888, kind=PortKind.HTTP),
            TemplatePort(port=22, kind=PortKind.TCP),
        ),
        envs=(
            EnvironmentVariable(key="MODE", value=" prod "),
            EnvironmentVariable(key="N", value="3"),
            EnvironmentVariable(key="ON", value="true"),
        ),
        tools=(TemplateTool(name="Jupyter", port=8889, kind=PortKind.HTTP),),
        start_command="serve",
        entrypoint="/run",
        min_cuda_version="12.4",
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"image": ""}, "no image"),
        ({"ports": [{"type": "http", "ports": [0]}]}, "port 0 "),
        ({"ports": [{"type": "http", "ports": [65536]}]}, "port 65536 "),
        ({"ports": [{"type": "tcp", "ports": [2223]}]}, "port 2223 "),
        ({"ports": [{"type": "tcp", "ports": ["ssh"]}]}, "a port is not a whole number"),
        ({"ports": [{"type": "tcp", "ports": "22"}]}, "a port is not a whole number"),
        ({"ports": [{"type": "smoke", "ports": [22]}]}, "type 'smoke'"),
        ({"tools": [{"name": "Jupyter", "port": "70000", "type": "http"}]}, "port of tool 'Jupyter' 70000"),
        ({"envs": [{"key": "A", "value": "1"}, {"key": "", "value": "s3cret"}]}, "variable number 2"),
        ({"envs": [{"key": "A=B", "value": "s3cret"}]}, "variable number 1"),
        ({"envs": [{"key": "A", "value": "s3cret" * 1000}]}, "variable 'A'"),
        ({"envs": [{"key": "A", "value": {"s3cret": 1}}]}, "variable 'A'"),
        ({"ports": [{"type": "tcp", "ports": list(range(1, 17))}]}, "17 ports and tools, and 15 are allowed: 1, 2,"),
        (
            {
                "ports": [{"type": "tcp", "ports": list(range(1, 16))}],
                "tools": [{"name": "Jupyter", "port": "8888", "type": "http"}],
            },
            "8888 (Jupyter)",
        ),
        ({"ports": [{"type": "tcp", "ports": [2223]}]}, "port 2223"),
        ({"envs": [{"key": f"K{n}", "value": "s3cret"} for n in range(101)]}, "101 environment variables"),
    ],
)
def test_a_template_that_cannot_be_ordered_says_which_part(changes: dict[str, object], says: str) -> None:
    """The author must be able to find the mistake; the value of a variable is never shown."""
    with pytest.raises(CloudRefusedError) as caught:
        read(**changes)

    assert caught.value.code == "INVALID_TEMPLATE"
    assert says in caught.value.message
    assert "s3cret" not in f"{caught.value.message} {caught.value.details}"


def test_every_fault_of_a_template_is_named_at_once() -> None:
    """All mistakes are reported in one attempt."""
    with pytest.raises(CloudRefusedError) as caught:
        read(image=None, ports=[{"type": "tcp", "ports": [0, 2222]}], envs=[{}])

    assert len(list(caught.value.details["problems"])) == 4  # type: ignore[call-overload]  # a list of texts


def test_a_template_that_is_wrong_throughout_is_refused_in_a_few_words() -> None:
    """What is said of it is logged, kept and shown, and must not be many times what it is itself."""
    ports = [{"type": "http", "ports": [0] * 5000}]
    with pytest.raises(CloudRefusedError) as caught:
        read(
            ports=ports, tools=[{"name": "x" * 9000, "port": 0, "type": "http"}], envs=[{"key": "K" * 500, "value": []}]
        )

    problems = caught.value.details["problems"]
    assert isinstance(problems, list)
    assert problems[-1] == "and 4982 more"
    assert len(problems) == 21
    assert len(caught.value.message) < 3000

    with pytest.raises(CloudRefusedError) as caught:
        read(tools=[{"name": "x" * 9000, "port": 0, "type": "http"}], envs=[{"key": "K" * 500, "value": []}])

    assert len(caught.value.message) < 500


def test_an_order_says_everything_in_the_create_call_s_own_form() -> None:
    """Ports become one text, a tool's port a text; nothing unasked for (month, imageAuth) is sent."""
    assert order(read()) == {
        "name": "corral-a1",
        "productId": "4090.16c62g",
        "gpuNum": 1,
        "rootfsSize": 60,
        "imageUrl": "docker.io/acme/app:1.2",
        "imageAuthId": "3f0c9d0e",
        "ports": "8080/http, 8888/http, 22/tcp",
        "envs": [
            {"key": "MODE", "value": " prod "},
            {"key": "N", "value": "3"},
            {"key": "ON", "value": "true"},
        ],
        "tools": [{"name": "Jupyter", "port": "8889", "type": "http"}],
        "command": "serve",
        "entrypoint": "/run",
        "clusterId": "us-ca-6",
        "kind": "gpu",
        "billingMode": "spot",
        "minCudaVersion": "12.4",
    }


def test_volumes_are_sent_by_the_create_call_s_own_names() -> None:
    """The id is spelled with a capital here and nowhere else."""
    body = order(read(), volumes=(VolumeMount(id="ns-1", mount="/data"),))

    assert body["networkStorages"] == [{"Id": "ns-1", "mountPoint": "/data"}]


def test_credentials_replace_the_auth_id() -> None:
    """They are sent when the provider refused the id, and never both."""
    credentials = Credentials(username="acme", password="s3c:ret")
    body = order(read(), credentials)

    assert body["imageAuth"] == "acme:s3c:ret"
    assert "imageAuthId" not in body
    assert "s3c" not in repr(credentials)


def test_an_order_from_a_bare_template_sends_no_empty_fields() -> None:
    """Some servers take an empty text for a value."""
    body = order(read(imageAuth="", startCommand="", entrypoint=None, ports=[], envs=None, tools=[], minCudaVersion=""))

    assert set(body) == {
        "name",
        "productId",
        "gpuNum",
        "rootfsSize",
        "imageUrl",
        "clusterId",
        "kind",
        "billingMode",
    }
