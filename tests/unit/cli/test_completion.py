"""What bash asks at a press of Tab."""

from __future__ import annotations

import pytest

from corral.cli.completion import rejoin_words


@pytest.mark.parametrize(
    ("words", "current", "joined", "place"),
    [
        (["corral", "show", "tr"], 2, ["corral", "show", "tr"], 2),
        (
            ["corral", "show", "--url", "http", ":", "//127.0.0.1", ":", "3917", "tr"],
            8,
            ["corral", "show", "--url", "http://127.0.0.1:3917", "tr"],
            4,
        ),
        (
            ["corral", "show", "--url", "=", "http", ":", "//[::1]", ":", "3917", ""],
            9,
            ["corral", "show", "--url=http://[::1]:3917", ""],
            3,
        ),
    ],
)
def test_an_address_that_bash_split_is_one_word_again(
    words: list[str], current: int, joined: list[str], place: int
) -> None:
    """The word before the cursor stays the one to complete."""
    environ = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(current)}
    rejoin_words(environ)

    assert environ == {"COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(place)}


@pytest.mark.parametrize("environ", [{}, {"COMP_WORDS": "corral show a:b", "COMP_CWORD": "2"}, {"COMP_WORDS": "a\nb"}])
def test_other_shells_are_left_alone(environ: dict[str, str]) -> None:
    """They pass the line in one piece."""
    before = dict(environ)
    rejoin_words(environ)

    assert environ == before
