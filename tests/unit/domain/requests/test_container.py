"""The fields of a create request about its container: what is accepted, and what the errors say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from corral.domain.container import ContainerSpec, VolumeMount
from corral.domain.instance import CreateRequest
from corral.domain.placement.catalog import EnvironmentVariable, PortKind, TemplatePort
from corral.domain.requests.create import CreateDefaults, RequestedInstance, read_create_request

DEFAULTS = CreateDefaults(region="CN-HK-01", regions=())
LEAST = {"name": "a", "productName": "RTX 4090 24GB", "templateId": "204511"}
FULL = {
    "image": "docker.io/acme/app:1.2",
    "imageAuthId": "auth-1",
    "command": "python serve.py\n--port 8080",
    "entrypoint": "",
    "env": {"MODE": "train", "_x.y-1": " spaces \n"},
    "ports": ["8080/http", "22/tcp"],
    "volumes": [{"id": "ns-1", "mount": "/data/"}, {"id": "ns-2", "mount": "/data/models"}],
    "minCuda": "12.4",
}


def read(**fields: object) -> CreateRequest:
    found = read_create_request({**LEAST, **fields}, DEFAULTS)
    assert isinstance(found, RequestedInstance), found
    return found.request


def problem(**fields: object) -> Any:
    found = read_create_request({**LEAST, **fields}, DEFAULTS)
    assert isinstance(found, tuple)
    [only] = found
    return only


def test_every_field_is_read_and_survives_the_record() -> None:
    """The record is JSON in the database and in exports."""
    spec = ContainerSpec(
        image="docker.io/acme/app:1.2",
        image_auth_id="auth-1",
        command="python serve.py\n--port 8080",
        entrypoint="",
        env=(
            EnvironmentVariable(key="MODE", value="train"),
            EnvironmentVariable(key="_x.y-1", value=" spaces \n"),
        ),
        ports=(TemplatePort(port=8080, kind=PortKind.HTTP), TemplatePort(port=22, kind=PortKind.TCP)),
        volumes=(VolumeMount(id="ns-1", mount="/data"), VolumeMount(id="ns-2", mount="/data/models")),
        min_cuda="12.4",
    )
    found = read(**FULL)

    assert found.container == spec
    assert msgspec.json.decode(msgspec.json.encode(found), type=CreateRequest) == found
    assert "train" not in repr(found)
    assert "serve.py" not in repr(found)


def test_a_record_of_an_earlier_release_says_nothing_about_the_container() -> None:
    """It is read as before: everything is the template's."""
    record = msgspec.json.decode(msgspec.json.encode(read()))
    del record["container"]

    assert msgspec.convert(record, CreateRequest, strict=False) == read()
    assert read().container is None


@pytest.mark.parametrize("nothing", [{}, {"image": None}, {"env": {}}, {"volumes": []}, dict.fromkeys(FULL)])
def test_what_says_nothing_is_no_container(nothing: dict[str, object]) -> None:
    """Null and empty are as left out, so that the template is used as it is."""
    assert read(**nothing).container is None


def test_an_image_replaces_the_template_and_one_of_them_is_required() -> None:
    """An image that is invalid is the only problem: the caller did not forget the template."""
    found = read(templateId=None, image="a/b")

    assert (found.template_id, found.container) == ("", ContainerSpec(image="a/b"))
    assert problem(templateId=None).message == "is required, unless image is given"
    assert problem(templateId=None, image="a b").code == "INVALID_IMAGE"


@pytest.mark.parametrize(("name", "empty"), [("ports", []), ("command", ""), ("entrypoint", "")])
def test_an_empty_list_of_ports_or_text_removes_what_the_template_has(name: str, empty: object) -> None:
    """Unlike null, which leaves the template's."""
    container = read(**{name: empty}).container

    assert container is not None
    assert getattr(container, name) in {(), ""}


@pytest.mark.parametrize(
    ("field", "value", "code", "says"),
    [
        ("image", "docker.io/acme/my app", "INVALID_IMAGE", "without spaces"),
        ("image", "x" * 501, "INVALID_IMAGE", "1 to 500"),
        ("image", "a\u200bb", "INVALID_IMAGE", "printable"),
        ("imageAuthId", "x" * 256, "INVALID_IMAGE_AUTH_ID", "1 to 255"),
        ("command", "x" * 2048, "INVALID_COMMAND", "at most 2047"),
        ("entrypoint", "\0", "INVALID_ENTRYPOINT", "without NUL"),
        ("env", {f"N{n}": "" for n in range(101)}, "INVALID_ENV", "there are 101 names, and 100 are allowed"),
        ("env", {"A": "hidden", "B C": "x"}, "INVALID_ENV", "'B C'"),
        ("env", {"A" * 512: ""}, "INVALID_ENV", "at most 511"),
        ("env", {"A": 7, "B": "x" * 4096, "C": "\0"}, "INVALID_ENV", "'A', 'B', 'C'"),
        ("env", {f"{n}": "" for n in range(9)}, "INVALID_ENV", "'4' and 4 more"),
        ("env", ["A=hidden"], "INVALID_ENV", "object"),
        ("ports", ["8080/http", "8080/tcp"], "INVALID_PORTS", "port 8080 twice"),
        ("ports", ["2223/tcp"], "INVALID_PORTS", "must not have port 2223: the provider uses"),
        ("ports", ["0/http"], "INVALID_PORTS", "1 to 65535"),
        ("ports", ["65536/http"], "INVALID_PORTS", "1 to 65535"),
        ("ports", ["80/udp"], "INVALID_PORTS", "http or tcp"),
        ("ports", [80], "INVALID_PORTS", "8080/http"),
        ("ports", [f"{n}/http" for n in range(1, 17)], "INVALID_PORTS", "at most 15"),
        ("ports", "80/http", "INVALID_PORTS", "list"),
        ("volumes", [{"id": "ns-1"}], "INVALID_VOLUMES", "mount"),
        ("volumes", [{"mount": "/a"}], "INVALID_VOLUMES", "must have an id"),
        ("volumes", [{"id": "a", "mount": "/x"}, {"id": "b", "mount": "/x/"}], "INVALID_VOLUMES", "mount /x twice"),
        ("volumes", [{"id": "a", "mount": "/x"}, {"id": "a", "mount": "/y"}], "INVALID_VOLUMES", "volume a twice"),
        *(
            ("volumes", [{"id": "a", "mount": mount}], "INVALID_VOLUMES", "absolute path")
            for mount in ("/", "data", "/a/../b", "/a//b", "//a", "/a\nb", "", "/" + "x" * 4095)
        ),
        ("volumes", [{"id": f"{n}", "mount": f"/{n}"} for n in range(31)], "INVALID_VOLUMES", "at most 30"),
        ("minCuda", "12", "INVALID_MIN_CUDA", "12.4"),
        ("minCuda", 12.4, "INVALID_MIN_CUDA", "12.4"),
    ],
)
def test_a_bad_value_is_refused_with_its_rule(field: str, value: object, code: str, says: str) -> None:
    """Each field has a code, and the message says what is accepted."""
    found = problem(**{field: value})

    assert (found.field, found.code) == (field, code)
    assert says in found.message
    assert "hidden" not in f"{found.message} {found.value if found.shows_value else ''}"
