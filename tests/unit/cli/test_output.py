"""What the commands say, where it depends on the time or on texts from elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from corral.cli import main
from corral.cli.output import clock_time, expected, print_json
from corral.domain.errors import StoreUnavailableError
from corral_client import CorralApiError, CorralError, Invalid
from corral_client.errors import FieldError

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_an_estimate_that_has_passed_is_not_promised_any_more() -> None:
    """Before its time it is about when; after it, that it is late."""
    later, earlier = NOW + timedelta(minutes=4), NOW - timedelta(minutes=4)

    assert expected(later, NOW) == f"ready at about {clock_time(later)}"
    assert expected(earlier, NOW) == f"takes longer than usual: expected at {clock_time(earlier)}"


HOSTILE = "no stock \x1b[2J\x1b]0;owned\x07\x9b1;1H\rdone\u202e"


@pytest.mark.parametrize(
    "error",
    [
        CorralApiError(HOSTILE, code="PROVIDER_ERROR"),
        Invalid(
            "wrong", code="VALIDATION_ERROR", validation_errors=[FieldError(field=HOSTILE, code="X", message=HOSTILE)]
        ),
        CorralError(HOSTILE),
        StoreUnavailableError(HOSTILE),
    ],
)
def test_an_error_from_elsewhere_cannot_steer_the_terminal(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider's text reaches standard error through the service."""

    def fail() -> None:
        raise error

    monkeypatch.setattr(main, "_every_command", fail)
    with pytest.raises(SystemExit):
        main.main()

    reported = capsys.readouterr().err
    assert "no stock" in reported
    assert [letter for letter in reported if not letter.isprintable() and letter != "\n"] == []


def test_json_for_a_terminal_is_harmless_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON itself escapes only the first 32 characters."""
    value = {"name": HOSTILE, "tag": "\U000e0001", "plain": "größe 東京 🙂"}
    print_json(value)

    reported = capsys.readouterr().out
    assert [letter for letter in reported if not letter.isprintable() and letter != "\n"] == []
    assert "größe 東京 🙂" in reported
    assert msgspec.json.decode(reported) == value
