"""Environment variables and secrets from options, files and the caller's environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.cli.create_options.container import environment, labels, mounts
from corral.cli.create_options.env_files import LARGEST_FILE, assignments, read_env_file, secret_assignments
from corral.domain.errors import MalformedError

VALUE = "s3cret-value"


def written(directory: Path, text: str | bytes) -> str:
    file = directory / "my env"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


def test_a_file_has_a_variable_a_line(tmp_path: Path) -> None:
    """As the page about the format says it."""
    file = written(
        tmp_path,
        "\ufeff# a comment\n\nPLAIN=one two # not a comment\r\n  SPACED =  x  \nEMPTY=\nEQUALS=a=b=c\n"
        'export EXPORTED=1\nSINGLE=\'a \\n "b" \'\nDOUBLE="a\\n\\t\\"b\\" \\\\ #"\nlower.case-name=1\nQUOTE=it\'s\n',
    )

    assert read_env_file(file, option="--env-file") == {
        "PLAIN": "one two # not a comment",
        "SPACED": "x",
        "EMPTY": "",
        "EQUALS": "a=b=c",
        "EXPORTED": "1",
        "SINGLE": 'a \\n "b" ',
        "DOUBLE": 'a\n\t"b" \\ #',
        "lower.case-name": "1",
        "QUOTE": "it's",
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (VALUE, "there is no `=`"),
        (f"1{VALUE}=x", "a name has letters"),
        (f"={VALUE}", "a name has letters"),
        (f"a b={VALUE}", "a name has letters"),
        (f"A='{VALUE}", "the quotes are not closed"),
        (f'A="{VALUE}\\"', "the quotes are not closed"),
        (f"A='x' {VALUE}", "or text follows them"),
        (f"FIRST={VALUE}", "FIRST was given above already"),
    ],
)
def test_a_mistake_is_named_by_its_line_and_not_by_its_value(tmp_path: Path, line: str, reason: str) -> None:
    """A message ends up in terminals and in logs of build servers."""
    file = written(tmp_path, f"FIRST=1\n\n{line}\n")

    with pytest.raises(MalformedError) as error:
        read_env_file(file, option="--secret-file")

    assert f"--secret-file {file}, line 3: " in error.value.message
    assert reason in error.value.message
    assert VALUE not in error.value.message


@pytest.mark.parametrize(
    ("content", "reason"), [(b"A=\xff\n", "byte 3 is not UTF-8"), (b"#" * (LARGEST_FILE + 1), "larger than 1 MiB")]
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    """By name; also one that does not exist."""
    with pytest.raises(MalformedError, match=reason):
        read_env_file(written(tmp_path, content), option="--env-file")
    with pytest.raises(MalformedError, match=r"--env-file .*gone: No such file"):
        read_env_file(str(tmp_path / "gone"), option="--env-file")


def test_a_variable_without_a_value_is_taken_from_the_caller() -> None:
    """As `docker run --env` does; one that does not exist there is a mistake, not an empty value."""
    assert assignments(["A=1", "B", "C=", "D==x"], {"B": "2"}, option="--env") == {
        "A": "1",
        "B": "2",
        "C": "",
        "D": "=x",
    }
    with pytest.raises(MalformedError, match="--env B: there is no variable B in the environment"):
        assignments(["B"], {}, option="--env")
    with pytest.raises(MalformedError, match="--env A: it was given twice"):
        assignments(["A=1", "A=2"], {}, option="--env")


def test_a_secret_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    """Without the line end that an editor adds."""
    file = written(tmp_path, f"{VALUE}\n")

    found = secret_assignments(["HF_TOKEN", f"KEY=@{file}"], {"HF_TOKEN": "hf"}, option="--secret")

    assert found == {"HF_TOKEN": "hf", "KEY": VALUE}


def test_a_secret_on_the_command_line_is_refused_with_the_other_ways() -> None:
    """It would be in the shell's history and in the list of processes; the message does not repeat it."""
    with pytest.raises(MalformedError) as error:
        secret_assignments([f"KEY={VALUE}"], {}, option="--secret")

    assert VALUE not in error.value.message
    for way in ("shell's history", "`--secret KEY`", "`--secret KEY=@FILE`", "--secret-file"):
        assert way in error.value.message


def test_options_win_over_files(tmp_path: Path) -> None:
    """So that one value of a shared file can be changed for one machine."""
    file = written(tmp_path, "A=file\nB=file\n")

    variables, secrets = environment(["A=option"], [file], None, [file])

    assert variables == {"A": "option", "B": "file"}
    assert secrets == {"A": "file", "B": "file"}
    with pytest.raises(MalformedError, match="standard input can be read once only"):
        environment(None, ["-"], ["KEY=@-"], None)


def test_volumes_and_labels_are_read_from_pairs() -> None:
    """A path may have colons, a value equals signs."""
    assert mounts(["vol-1:/data:x"]) == [{"id": "vol-1", "mount": "/data:x"}]
    assert labels(["a/b=c=d", "e="], option="--label") == {"a/b": "c=d", "e": ""}
    for bad in ("vol-1", "vol-1:", ":/data"):
        with pytest.raises(MalformedError, match="--volume"):
            mounts([bad])
    for bad in ("team", "=x"):
        with pytest.raises(MalformedError, match="--label"):
            labels([bad], option="--label")
