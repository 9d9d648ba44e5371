"""
How settings are read: from the command line, the environment and `.env`, in that order of strength.

A secret can also be in a file that `NAME_FILE` names, as `NOVITA_API_KEY_FILE`, so that it is in no environment.
`load` is pure: it is handed all of them, and either returns every setting or raises one error that names each bad one,
with its value and what is accepted. Only the command line calls it, once, at the start.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import pairwise
from typing import Self, get_args

from dotenv import dotenv_values
from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from corral.base.settings import settings as declarations
from corral.base.settings.fields import HOLDS_TOKEN
from corral.base.settings.settings import Group, Settings
from corral.base.urls import MASK, host_only, without_user
from corral.domain.errors import SettingsError
from corral.domain.leases.durations import duration_text

OWN_PREFIX = "CORRAL_"
"""Unknown names with this prefix are errors: a typing mistake must not be a silent default."""
FILE_SUFFIX = "_FILE"
"""After the name of a secret setting: the path of a file with its value, as systemd and Kubernetes give them."""
CLIENT_NAMES = frozenset({"CORRAL_API_KEY", "CORRAL_URL"})
"""What programs that call the service read, perhaps from the same environment; no setting of the service itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingShown:
    """One setting as `corral config` prints it."""

    name: str
    group: str
    value: str
    default: str
    origin: str
    accepts: str

    @property
    def meaning(self) -> str:
        """The docstring under its field."""
        return _meanings()[self.name]

    @classmethod
    def of(cls, name: str, group: str, field: FieldInfo, value: object, origin: str) -> Self:
        """Describe *field* holding *value*; secrets are masked by their type."""
        return cls(
            name=name,
            group=group,
            value=host_only(value) if _holds_token(field) and isinstance(value, str) else _shown(value),
            default=_shown(field.default),
            origin=origin,
            accepts=field.title or "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The settings, and where each came from."""

    settings: Settings
    shown: tuple[SettingShown, ...]


def settings_shown(settings: Settings) -> tuple[SettingShown, ...]:
    """Every setting of a process that runs, as `corral config` prints it but for where it came from."""
    return tuple(
        SettingShown.of(field.alias or name, group_name, field, getattr(getattr(settings, group_name), name), "")
        for group_name, group in _groups().items()
        for name, field in group.model_fields.items()
    )


def secret_files(environ: Mapping[str, str], *, dotenv: str = "") -> dict[str, str]:
    """The paths that the environment or the text of `.env` gives for secret settings, by the name of the setting."""
    given = _read_dotenv(dotenv) | {name: value for name, value in environ.items() if value != ""}
    return {name: given[name + FILE_SUFFIX] for name in secret_names() if given.get(name + FILE_SUFFIX)}


def load(
    environ: Mapping[str, str],
    *,
    dotenv: str = "",
    command_line: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Configuration:
    """
    Read every setting; the command line beats the environment, which beats the text of `.env`.

    *files* has the contents of `secret_files`. A secret that is given both ways is an error, because one of the two may
    be the key of another account. An empty value counts as unset. Raises SettingsError naming every bad value and every
    unknown `CORRAL_*` name at once; secrets are named but never quoted.
    """
    sources: dict[str, tuple[str, str]] = {}
    overridden: list[tuple[str, str]] = []
    dotenv_read = _read_dotenv(dotenv)
    for origin, values in ((".env", dotenv_read), ("environment", environ), ("command line", command_line or {})):
        stronger = {name: (value, origin) for name, value in values.items() if value != ""}
        overridden += [(name, sources[name][0]) for name in stronger if name in sources]
        sources |= stronger

    complaints: list[str] = _unknown_names(sources)
    complaints += [f"{name} and {name}{FILE_SUFFIX} are both set: unset one" for name in files or () if name in sources]
    sources |= {name: (value, name + FILE_SUFFIX) for name, value in (files or {}).items()}
    groups: dict[str, Group] = {}
    shown: list[SettingShown] = []
    for group_name, group in _groups().items():
        aliases = {field.alias or name: name for name, field in group.model_fields.items()}
        for alias, value in overridden:
            complaints += _validated(group, aliases, {alias: value})[1] if alias in aliases else []
        given = {alias: sources[alias][0] for alias in aliases if alias in sources}
        validated, bad = _validated(group, aliases, given)
        complaints += bad
        if validated is None:
            continue
        groups[group_name] = validated
        for alias, name in aliases.items():
            value = getattr(groups[group_name], name)
            origin = sources[alias][1] if alias in given else "default"
            shown.append(SettingShown.of(alias, group_name, group.model_fields[name], value, origin))
    if complaints:
        raise SettingsError("\n".join(complaints))
    return Configuration(settings=Settings.model_validate(groups), shown=tuple(shown))


def _read_dotenv(text: str) -> dict[str, str]:
    return {name: value or "" for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items()}


def secret_names() -> list[str]:
    """The settings that can be given in a file."""
    fields = [field for group in _groups().values() for field in group.model_fields.values()]
    return [field.alias or "" for field in fields if _is_secret(field)]


def _groups() -> dict[str, type[Group]]:
    fields = Settings.model_fields.items()
    return {
        name: f.annotation for name, f in fields if isinstance(f.annotation, type) and issubclass(f.annotation, Group)
    }


@cache
def _meanings() -> dict[str, str]:
    """
    The docstring under the field of each setting, by the name of the setting.

    Python drops these docstrings, so they are read from the source, and only when they are printed: pydantic's
    `use_attribute_docstrings` reads them at every start, which takes a tenth of it.
    """
    classes = ast.parse(inspect.getsource(declarations)).body
    bodies = {node.name: node.body for node in classes if isinstance(node, ast.ClassDef)}
    return {
        group.model_fields[before.target.id].alias or before.target.id: inspect.cleandoc(str(after.value.value))
        for group in _groups().values()
        for before, after in pairwise(bodies[group.__name__])
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }


def _unknown_names(names: Mapping[str, object]) -> list[str]:
    known = [field.alias or "" for group in _groups().values() for field in group.model_fields.values()]
    known += [name + FILE_SUFFIX for name in secret_names()]
    complaints = []
    for name in sorted(names):
        if name.startswith(OWN_PREFIX) and name not in known and name not in CLIENT_NAMES:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; `corral config` lists all settings"
            complaints.append(f"{name}: no such setting{hint}")
    return complaints


def _validated(
    group: type[Group], aliases: Mapping[str, str], given: Mapping[str, str]
) -> tuple[Group | None, list[str]]:
    """The group with the values *given*, or None and what is wrong with each bad one."""
    unprintable = [alias for alias, value in given.items() if _has_control_characters(value)]
    if unprintable:
        fields = {alias: group.model_fields[aliases[alias]] for alias in unprintable}
        return None, [
            f"{alias}={_quoted(field, given[alias])}: accepted is {field.title}, without control characters"
            for alias, field in fields.items()
        ]
    try:
        return group.model_validate(given), []
    except ValidationError as error:
        return None, _complaints(group, aliases, given, error)


def _has_control_characters(value: str) -> bool:
    return any(ord(character) < ord(" ") or character == "\x7f" for character in value)


def _complaints(
    group: type[Group], aliases: Mapping[str, str], given: Mapping[str, str], error: ValidationError
) -> list[str]:
    bad = dict.fromkeys(str(problem["loc"][0]) for problem in error.errors(include_url=False))
    return [
        f"{alias}={_quoted(field, given.get(alias, ''))}: accepted is {field.title}"
        for alias in bad
        for field in [group.model_fields[aliases[alias]]]
    ]


def _quoted(field: FieldInfo, value: str) -> str:
    if _is_secret(field):
        return "(secret, not shown)"
    if _holds_token(field):
        return repr(host_only(value))
    return repr(without_user(value) if "://" in value else value)


def _holds_token(field: FieldInfo) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get(HOLDS_TOKEN))


def _is_secret(field: FieldInfo) -> bool:
    return field.annotation is SecretStr or SecretStr in get_args(field.annotation)


def _shown(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case SecretStr():
            return MASK
        case timedelta():
            return duration_text(value)
        case tuple():
            return ",".join(str(part) for part in value)
        case _:
            return str(value)
