"""The commands of a simulated machine."""

from __future__ import annotations

import pytest

from novitasim.workloads.shell import Machine, Result, run

MACHINE = Machine(
    name="box",
    env={"MODE": "prod", "MODEL": "large"},
    gpu_name="RTX 4090 24GB",
    gpus=2,
    mounts=("/data",),
    gpu_load=(7.0, 93.0),
)


@pytest.mark.parametrize(
    ("line", "output", "status"),
    [
        ("hostname", "box\n", 0),
        ("whoami && pwd", "root\n/root\n", 0),
        ("echo 'a  b' $MODE ${MODEL}", "a  b prod large\n", 0),
        ("echo -n x; echo y", "xy\n", 0),
        ("sh -c 'echo hello'", "hello\n", 0),
        ("false && echo never && echo nor; echo after", "after\n", 0),
        ("nvidia-smi -L", "GPU 0: NVIDIA RTX 4090 24GB\nGPU 1: NVIDIA RTX 4090 24GB\n", 0),
        ("df", "network  /data\noverlay  /\n", 0),
        ("false", "", 1),
        ("", "", 0),
    ],
)
def test_commands_are_answered(line: str, output: str, status: int) -> None:
    assert run(MACHINE, line) == Result(output, "", status)


def test_the_environment_is_shown_with_its_values() -> None:
    assert set(run(MACHINE, "env").output.splitlines()) >= {"MODE=prod", "MODEL=large"}


def test_each_gpu_shows_its_load() -> None:
    shown = run(MACHINE, "nvidia-smi").output

    assert "7% |" in shown
    assert "93% |" in shown


@pytest.mark.parametrize(
    "line", ["cat /etc/passwd", "/bin/ls", "python3 -c 1", "echo x > /tmp/x", "echo $(id)", "`id`", "echo x | sh"]
)
def test_nothing_of_the_host_is_run_or_read(line: str) -> None:
    done = run(MACHINE, line)

    assert done.output in {"", "x > /tmp/x\n", "$(id)\n", "x | sh\n"}


def test_an_unknown_command_and_a_bad_line_are_errors() -> None:
    assert run(MACHINE, "nope; hostname") == Result("box\n", "sh: nope: command not found\n", 0)
    assert run(MACHINE, "nope").status == 127
    assert run(MACHINE, "echo 'open").status == 2


def test_exit_ends_with_its_status() -> None:
    assert run(MACHINE, "echo a; exit 3; echo b") == Result("a\n", "", 3, ends=True)
