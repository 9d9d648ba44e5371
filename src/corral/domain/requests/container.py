"""The fields of a create request that describe its container, and reading them. Values of variables are never shown."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from corral.domain.container import (
    AS_TEMPLATE,
    HIGHEST_PORT,
    LONGEST_ENV_KEY,
    LONGEST_ENV_VALUE,
    MOST_ENVS,
    MOST_PORTS,
    RESERVED_PORTS,
    ContainerSpec,
    VolumeMount,
)
from corral.domain.placement.catalog import EnvironmentVariable, PortKind, TemplatePort
from corral.domain.requests.fields import (
    Field,
    Fields,
    InvalidFieldError,
    Problems,
    Rule,
    any_text,
    one_line,
    read_fields,
)

LONGEST_IMAGE: Final = 500
LONGEST_COMMAND: Final = 2047
LONGEST_MOUNT: Final = 4095
MOST_VOLUMES: Final = 30
"""Limits of the provider's create call."""

_PORT_KINDS: Final = (PortKind.HTTP, PortKind.TCP)
"""What the provider's create call documents; templates have more."""
_IMAGE = re.compile(rf"\S{{1,{LONGEST_IMAGE}}}")
_ENV_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{LONGEST_ENV_KEY - 1}}}")
_PORT = re.compile(rf"([1-9][0-9]{{0,4}})/({'|'.join(_PORT_KINDS)})")
_CUDA = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")
_VOLUME_ID = one_line(255)
_MOST_NAMED = 5
_LONGEST_QUOTE = 64
"""Bounds the error text of a body that is wrong throughout."""


def _image(value: object) -> str:
    if not isinstance(value, str) or not _IMAGE.fullmatch(value) or not value.isprintable():
        raise InvalidFieldError(f"must have 1 to {LONGEST_IMAGE} printable characters, without spaces")
    return value


def _command(value: object) -> str:
    text = any_text(value)
    if len(text) > LONGEST_COMMAND or "\0" in text:
        raise InvalidFieldError(f"must have at most {LONGEST_COMMAND} characters, without NUL")
    return text


def read_variables(value: object) -> tuple[EnvironmentVariable, ...]:
    """The variables of an object of names to texts; the error names each bad variable and repeats no value."""
    if not isinstance(value, dict):
        raise InvalidFieldError("must be an object of names to texts")
    given = cast("dict[str, object]", value)
    wrong: list[str] = []
    if len(given) > MOST_ENVS:
        wrong.append(f"there are {len(given)} names, and {MOST_ENVS} are allowed")
    names = [name for name in given if not _ENV_NAME.fullmatch(name)]
    if names:
        rule = f"must begin with a letter or _ and have at most {LONGEST_ENV_KEY} letters, digits, _, . and -"
        wrong.append(f"a name {rule}: {_quoted(names)}")
    texts = [name for name, text in given.items() if not _is_env_value(text)]
    if texts:
        wrong.append(f"a value must be a text of at most {LONGEST_ENV_VALUE} characters, without NUL: {_quoted(texts)}")
    if wrong:
        raise InvalidFieldError("; ".join(wrong))
    return tuple(EnvironmentVariable(key=name, value=cast("str", text)) for name, text in given.items())


def _is_env_value(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_ENV_VALUE and "\0" not in value


def _quoted(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(repr(name[:_LONGEST_QUOTE]) for name in names[:_MOST_NAMED]) + more


def _ports(value: object) -> tuple[TemplatePort, ...]:
    listed = cast("list[object]", value) if isinstance(value, list) else None
    if listed is None or len(listed) > MOST_PORTS:
        raise InvalidFieldError(f"must be a list of at most {MOST_PORTS} texts such as 8080/http and 22/tcp")
    found = tuple(_port(each) for each in listed)
    numbers = [port.port for port in found]
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise InvalidFieldError(f"must not have port {twice} twice")
    return found


def _port(value: object) -> TemplatePort:
    written = _PORT.fullmatch(value) if isinstance(value, str) else None
    if written is None or int(written[1]) > HIGHEST_PORT:
        kinds = " or ".join(_PORT_KINDS)
        raise InvalidFieldError(f"must have a number from 1 to {HIGHEST_PORT} and {kinds} in each text: 8080/http")
    number = int(written[1])
    if number in RESERVED_PORTS:
        raise InvalidFieldError(f"must not have port {number}: the provider uses 2222, 2223 and 2224 itself")
    return TemplatePort(port=number, kind=PortKind(written[2]))


def _volumes(value: object) -> tuple[VolumeMount, ...]:
    listed = cast("list[object]", value) if isinstance(value, list) else None
    if listed is None or len(listed) > MOST_VOLUMES:
        raise InvalidFieldError(f"must be a list of at most {MOST_VOLUMES} objects with id and mount")
    found = tuple(_volume(each) for each in listed)
    for what, given in (("volume", [v.id for v in found]), ("mount", [v.mount for v in found])):
        twice = next((each for each in given if given.count(each) > 1), None)
        if twice is not None:
            raise InvalidFieldError(f"must not have the {what} {twice[:_LONGEST_QUOTE]} twice")
    return found


def _volume(value: object) -> VolumeMount:
    given = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    mount = given.get("mount")
    try:
        volume_id: str = _VOLUME_ID.read(given.get("id"))
    except InvalidFieldError as error:
        raise InvalidFieldError(f"must have an id in each object, which {error}") from None
    if not isinstance(mount, str) or not _is_directory(mount.rstrip("/")):
        raise InvalidFieldError(
            f"must have a mount in each object: an absolute path of at most {LONGEST_MOUNT} printable characters "
            "below /, without the parts . and .."
        )
    return VolumeMount(id=volume_id, mount=mount.rstrip("/"))


def _is_directory(path: str) -> bool:
    """Whether *path* is absolute, below the root and in its only spelling, so that two are equal if they are one."""
    is_plain = path.startswith("/") and not path.startswith("//") and posixpath.normpath(path) == path
    return is_plain and len(path) <= LONGEST_MOUNT and path.isprintable()


def _min_cuda(value: object) -> str:
    if not isinstance(value, str) or not _CUDA.fullmatch(value):
        raise InvalidFieldError('must be a text such as "12.4"')
    return value


_COMMAND_RULE = Rule(_command, {"type": "string", "maxLength": LONGEST_COMMAND})
VARIABLES = Rule(
    read_variables,
    {
        "type": "object",
        "maxProperties": MOST_ENVS,
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_.-]*$", "maxLength": LONGEST_ENV_KEY},
        "additionalProperties": {"type": "string", "maxLength": LONGEST_ENV_VALUE},
    },
)
_VOLUME_SCHEMA = {
    "type": "object",
    "required": ["id", "mount"],
    "properties": {
        "id": {**_VOLUME_ID.schema, "description": "As in GET /api/volumes.", "examples": ["ns-4f1c09ab"]},
        "mount": {
            "type": "string",
            "minLength": 2,
            "maxLength": LONGEST_MOUNT,
            "pattern": "^/[^/.]",
            "description": "Where the container sees it: an absolute path.",
            "examples": ["/data"],
        },
    },
}
CONTAINER_FIELDS: Fields = {
    "image": Field(
        "image",
        "INVALID_IMAGE",
        Rule(_image, {"type": "string", "minLength": 1, "maxLength": LONGEST_IMAGE, "pattern": r"^\S+$"}),
        "The container image. Without `templateId` nothing but what this request says runs; with it, each field of "
        "this request replaces the template's, and `env` is merged by name.",
        "docker.io/acme/app:1.2",
    ),
    "image_auth_id": Field(
        "imageAuthId",
        "INVALID_IMAGE_AUTH_ID",
        one_line(255),
        "The provider's id of the registry login for the image. A template's login is used for the template's own "
        "image only.",
        "auth-1",
    ),
    "command": Field(
        "command",
        "INVALID_COMMAND",
        _COMMAND_RULE,
        "What the container runs; an empty text removes the template's.",
        "python serve.py",
        secret=True,
    ),
    "entrypoint": Field(
        "entrypoint",
        "INVALID_ENTRYPOINT",
        _COMMAND_RULE,
        "Instead of the image's entry point; an empty text removes the template's.",
        "/entrypoint.sh",
        secret=True,
    ),
    "env": Field(
        "env",
        "INVALID_ENV",
        VARIABLES,
        f"Environment variables, at most {MOST_ENVS} with those of the template. They are shown to every caller who "
        "may read instances.",
        {"MODE": "train"},
        secret=True,
    ),
    "ports": Field(
        "ports",
        "INVALID_PORTS",
        Rule(
            _ports,
            {
                "type": "array",
                "maxItems": MOST_PORTS,
                "items": {"type": "string", "pattern": f"^[1-9][0-9]{{0,4}}/({'|'.join(_PORT_KINDS)})$"},
            },
        ),
        "Ports to open instead of the template's, each number once, not 2222 to 2224; at most "
        f"{MOST_PORTS} with the template's tools. An empty list opens none but those of the tools.",
        ["8080/http", "22/tcp"],
    ),
    "volumes": Field(
        "volumes",
        "INVALID_VOLUMES",
        Rule(_volumes, {"type": "array", "maxItems": MOST_VOLUMES, "items": _VOLUME_SCHEMA}),
        "Network volumes of the account, all of one region: only offers in that region are tried.",
        [{"id": "ns-4f1c09ab", "mount": "/data"}],
    ),
    "min_cuda": Field(
        "minCuda",
        "INVALID_MIN_CUDA",
        Rule(_min_cuda, {"type": "string", "pattern": "^[0-9]{1,2}\\.[0-9]{1,2}$"}),
        "The lowest CUDA version that the machine must have.",
        "12.4",
    ),
}
_NAMES: Final = frozenset(field.name for field in CONTAINER_FIELDS.values())


def read_container(raw: Mapping[str, Any]) -> tuple[ContainerSpec | None, Problems]:
    """The container that *raw* describes, None if it says nothing about one; and every problem."""
    if _NAMES.isdisjoint(raw):
        return None, ()
    values, problems = read_fields(raw, CONTAINER_FIELDS)
    if problems:
        return None, problems
    spec = ContainerSpec(**values)
    return (None if spec == AS_TEMPLATE else spec), ()
