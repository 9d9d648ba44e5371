r"""
Environment variables from the command line, from files and from the caller's own environment.

A file has one `NAME=VALUE` a line; empty lines and lines that begin with `#` are skipped. A value is taken as it is,
without blanks around it; in single quotes exactly as it is, in double quotes with `\n`, `\t`, `\"` and `\\`.
Errors name the file, the line and the variable, never a value, which may be a secret.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from corral.domain.errors import MalformedError

LARGEST_FILE: Final = 1_048_576
"""Bytes, twice what 100 values of the greatest length need; a file beyond that was named by mistake."""
STDIN: Final = "-"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,510}", re.ASCII)
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SINGLE: Final = re.compile(r"'([^']*)'")
_ESCAPES: Final = {"n": "\n", "t": "\t"}
_BAD_NAME: Final = "a name has letters, digits, `_`, `.` and `-`, and does not begin with a digit"


def read_env_file(file: str, *, option: str) -> dict[str, str]:
    """The variables in *file*, `-` for standard input; raises MalformedError that names *option*, file and line."""
    found: dict[str, str] = {}
    for number, line in enumerate(read_text(file, option=option).splitlines(), 1):
        where = f"{option} {file}, line {number}"
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, separator, value = text.removeprefix("export ").partition("=")
        name = name.strip()
        if not separator:
            raise MalformedError(f"{where}: there is no `=`")
        if not _NAME.fullmatch(name):
            raise MalformedError(f"{where}: {_BAD_NAME}")
        if name in found:
            raise MalformedError(f"{where}: {name} was given above already")
        found[name] = _unquoted(value.strip(), where)
    return found


def read_text(file: str, *, option: str) -> str:
    """The text of *file*, `-` for standard input; raises MalformedError when it cannot be read."""
    try:
        if file == STDIN:
            content = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise MalformedError(f"{option} {file}: it is larger than 1 MiB")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedError(f"{option} {file}: byte {error.start + 1} is not UTF-8") from error
    except OSError as error:
        raise MalformedError(f"{option} {file}: {error.strerror}") from error


def assignments(given: Iterable[str], environ: Mapping[str, str], *, option: str) -> dict[str, str]:
    """The variables of *given*: `NAME=VALUE`, or `NAME` for its value in *environ*."""
    found: dict[str, str] = {}
    for one in given:
        name, separator, value = one.partition("=")
        found[_new(name, found, option)] = value if separator else _inherited(name, environ, option)
    return found


def secret_assignments(given: Iterable[str], environ: Mapping[str, str], *, option: str) -> dict[str, str]:
    """The secrets of *given*: `NAME` for its value in *environ*, `NAME=@FILE` for the text of a file or of `-`."""
    found: dict[str, str] = {}
    for one in given:
        name, separator, value = one.partition("=")
        name = _new(name, found, option)
        if separator and not value.startswith("@"):
            raise MalformedError(
                f"{option} {name}: a value on the command line is kept in the shell's history and visible to other "
                f"users of this machine. Use `{option} {name}` for its value in the environment, `{option} "
                f"{name}=@FILE` for the text of a file (`@-` for standard input), or --secret-file"
            )
        if separator:
            text = read_text(value[1:], option=f"{option} {name}=@")
            found[name] = text.removesuffix("\n").removesuffix("\r")
        else:
            found[name] = _inherited(name, environ, option)
    return found


def _new(name: str, found: Mapping[str, str], option: str) -> str:
    if not _NAME.fullmatch(name):
        raise MalformedError(f"{option}: {_BAD_NAME}")
    if name in found:
        raise MalformedError(f"{option} {name}: it was given twice")
    return name


def _inherited(name: str, environ: Mapping[str, str], option: str) -> str:
    if name not in environ:
        raise MalformedError(f"{option} {name}: there is no variable {name} in the environment")
    return environ[name]


def _unquoted(value: str, where: str) -> str:
    """*value* without its quotes; raises MalformedError when they are not closed, or text follows them."""
    if not value.startswith(("'", '"')):
        return value
    pattern = _DOUBLE if value[0] == '"' else _SINGLE
    quoted = pattern.fullmatch(value)
    if quoted is None:
        raise MalformedError(f"{where}: the quotes are not closed, or text follows them")
    if pattern is _SINGLE:
        return quoted[1]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted[1])
