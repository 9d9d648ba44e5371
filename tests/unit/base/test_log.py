"""Logs: known events, no secrets, machine-readable away from a terminal."""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path

import msgspec
import pytest
from pydantic import SecretStr

import corral
from corral.base.log import LOG_EVENTS, configure_logging, log

SOURCE = Path(corral.__file__).parent


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


def test_every_logged_event_is_listed_and_every_listed_event_is_logged() -> None:
    """An operator can look each one up; none is a leftover."""
    calls = re.compile(r'log\.(?:debug|info|warning|error|exception)\(\s*"([^"]+)"|log\.log\([^"]*"([^"]+)"')
    used = {
        match[1] or match[2]
        for file in SOURCE.rglob("*.py")
        for match in calls.finditer(file.read_text(encoding="utf-8"))
    }

    assert used == set(LOG_EVENTS)


def test_events_are_nouns_and_verbs() -> None:
    """`noun.verb`, constant, so that they can be searched and counted."""
    assert [event for event in LOG_EVENTS if not re.fullmatch(r"[a-z]+\.[a-z_]+", event)] == []


def test_secrets_are_redacted_at_any_depth(output: io.StringIO) -> None:
    """By their type: the name of a key proves nothing."""
    configure_logging("info", stream=output)
    log.info("service.ready", key=SecretStr("hunter2"), nested={"list": [SecretStr("hunter2")]}, text="fine")
    line = output.getvalue()

    assert "hunter2" not in line
    assert msgspec.json.decode(line)["nested"] == {"list": ["********"]}
    assert msgspec.json.decode(line)["text"] == "fine"


def test_the_level_is_obeyed(output: io.StringIO) -> None:
    """LOG_LEVEL=warning is quiet."""
    configure_logging("warning", stream=output)
    log.info("service.ready")
    log.warning("database.lost")

    assert [msgspec.json.decode(line)["event"] for line in output.getvalue().splitlines()] == ["database.lost"]


def test_what_libraries_log_comes_out_as_ours(output: io.StringIO) -> None:
    """One stream, one format."""
    configure_logging("info", stream=output)
    logging.getLogger("some.library").warning("odd: %s", 7)
    logging.getLogger("some.library").info("chatter")
    (line,) = output.getvalue().splitlines()

    assert {k: v for k, v in msgspec.json.decode(line).items() if k in {"event", "library", "message", "level"}} == {
        "event": "library.logged",
        "library": "some.library",
        "message": "odd: 7",
        "level": "warning",
    }


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_traceback_on_a_terminal_shows_no_values(output: io.StringIO) -> None:
    """The variables of a failing frame hold API keys and passwords."""
    terminal = _Terminal()
    configure_logging("info", stream=terminal)

    def call_the_provider(api_key: str) -> None:
        raise RuntimeError(f"no answer {len(api_key)} \x1b[2J")

    try:
        call_the_provider("sk-live-123".upper())
    except RuntimeError:
        log.exception("request.failed")

    assert "call_the_provider" in terminal.getvalue()
    assert "SK-LIVE-123" not in terminal.getvalue()
    assert "\x1b[2J" not in terminal.getvalue()
    assert output.getvalue() == ""


def test_texts_from_elsewhere_cannot_steer_a_terminal(output: io.StringIO) -> None:
    """A message of the provider is logged as it came."""
    terminal = _Terminal()
    configure_logging("info", stream=terminal)
    log.info("request.failed", reason="\x1b]0;owned\x07\x9b2J")

    assert "\x1b]0" not in terminal.getvalue()
    assert "\x9b" not in terminal.getvalue()
    assert "owned" in terminal.getvalue()
    assert output.getvalue() == ""
