"""
The shell of a simulated machine: a fixed set of commands that are answered from what the instance is.

Nothing here runs a program or reads a file of the host. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

HOME = "/root"
_NOT_FOUND = 127
_SYNTAX = 2
_SEPARATORS = frozenset({";", "&&"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the commands of a machine know."""

    name: str
    env: Mapping[str, str]
    gpu_name: str
    gpus: int
    mounts: tuple[str, ...] = ()
    gpu_load: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What a command wrote, and its exit status; *ends* is true for `exit`."""

    output: str = ""
    error: str = ""
    status: int = 0
    ends: bool = False


def run(machine: Machine, line: str) -> Result:
    """Run a line: commands joined by `;` and `&&`; `sh -c LINE` and `$NAME` are understood."""
    try:
        words = list(_lexer(line))
    except ValueError as error:
        return Result(error=f"sh: {error}\n", status=_SYNTAX)
    output, errors, status, skip = "", "", 0, False
    for command, joined_by in _commands(words):
        if not skip:
            done = _one(machine, [_expanded(machine, word) for word in command])
            output, errors, status = output + done.output, errors + done.error, done.status
            if done.ends:
                return Result(output, errors, status, ends=True)
        skip = joined_by == "&&" and (skip or status != 0)
    return Result(output, errors, status)


def _lexer(line: str) -> shlex.shlex:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    return lexer


def _commands(words: list[str]) -> list[tuple[list[str], str]]:
    """Each command and the separator after it."""
    commands: list[tuple[list[str], str]] = []
    current: list[str] = []
    for word in (*words, ";"):
        if word not in _SEPARATORS:
            current.append(word)
            continue
        if current:
            commands.append((current, word))
        current = []
    return commands


def _expanded(machine: Machine, word: str) -> str:
    known = {"HOME": HOME, "USER": "root"} | dict(machine.env)
    for name in sorted(known, key=len, reverse=True):
        word = word.replace(f"${{{name}}}", known[name]).replace(f"${name}", known[name])
    return word


def _one(machine: Machine, words: list[str]) -> Result:
    name, arguments = words[0], words[1:]
    if name in {"sh", "bash", "/bin/sh", "/bin/bash"} and arguments:
        return run(machine, arguments[-1])
    if name == "exit":
        code = arguments[0] if arguments else "0"
        return Result(status=int(code) % 256 if code.isdecimal() else _SYNTAX, ends=True)
    if name == "false":
        return Result(status=1)
    answer = _COMMANDS.get(name)
    if answer is None:
        return Result(error=f"sh: {name}: command not found\n", status=_NOT_FOUND)
    return Result(answer(machine, arguments))


def _echo(_machine: Machine, arguments: list[str]) -> str:
    if arguments[:1] == ["-n"]:
        return " ".join(arguments[1:])
    return " ".join(arguments) + "\n"


def _env(machine: Machine, _arguments: list[str]) -> str:
    known = {"HOME": HOME, "USER": "root"} | dict(machine.env)
    return "".join(f"{name}={value}\n" for name, value in known.items())


def _disks(machine: Machine, _arguments: list[str]) -> str:
    return "".join(f"network  {mount}\n" for mount in machine.mounts) + "overlay  /\n"


def _nvidia_smi(machine: Machine, arguments: list[str]) -> str:
    gpus = range(machine.gpus)
    if "-L" in arguments:
        return "".join(f"GPU {number}: NVIDIA {machine.gpu_name}\n" for number in gpus)
    loads = machine.gpu_load or (0.0,)
    rows = (
        f"| {number:>3}  NVIDIA {machine.gpu_name:<28} {loads[min(number, len(loads) - 1)]:>4.0f}% |\n"
        for number in gpus
    )
    rule = "+" + "-" * 47 + "+\n"
    return f"{rule}| GPU  Name {'GPU-Util':>35} |\n{rule}{''.join(rows)}{rule}"


_COMMANDS: dict[str, Callable[[Machine, list[str]], str]] = {
    "hostname": lambda machine, _: f"{machine.name}\n",
    "whoami": lambda _machine, _: "root\n",
    "id": lambda _machine, _: "uid=0(root) gid=0(root) groups=0(root)\n",
    "pwd": lambda _machine, _: f"{HOME}\n",
    "uname": lambda machine, _: f"Linux {machine.name} x86_64 GNU/Linux\n",
    "true": lambda _machine, _: "",
    "echo": _echo,
    "env": _env,
    "df": _disks,
    "nvidia-smi": _nvidia_smi,
}
