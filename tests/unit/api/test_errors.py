"""Every error has its row in every table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest

from corral.api.http.context import RequestIds
from corral.api.http.errors import STATUS_BY_CLASS, problem
from corral.cli.exit_codes import EXIT_CODES
from corral.domain import errors

NOW = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
IDS = RequestIds(request_id="r", correlation_id="c")


def kinds(root: type[errors.CorralError] = errors.CorralError) -> Iterator[type[errors.CorralError]]:
    for kind in root.__subclasses__():
        if kind.__module__.startswith("corral."):
            yield kind
            yield from kinds(kind)


@pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.__name__)
def test_each_kind_has_a_status_and_an_exit_code_and_a_sentence(kind: type[errors.CorralError]) -> None:
    """A new class fails here until it has a status and an exit code."""
    assert kind in STATUS_BY_CLASS
    assert any(parent in EXIT_CODES for parent in kind.__mro__)
    assert kind.__doc__
    assert kind.__doc__.endswith(".")


def test_every_kind_is_drawn_in_the_tree() -> None:
    """The drawing at the top of the file is the map people use."""
    assert errors.__doc__ is not None
    missing = [
        kind.__name__ for kind in kinds() if kind.__module__ == errors.__name__ and kind.__name__ not in errors.__doc__
    ]

    assert missing == []


def test_all_bad_fields_are_listed_and_secret_values_are_not() -> None:
    """The shape of the contract, field by field."""
    answer = problem(
        errors.SpecInvalidError(
            [
                errors.FieldProblem(field="gpuNum", code="INVALID_GPU_NUM", message="must be between 1 and 8", value=9),
                errors.FieldProblem(field="webhookUrl", code="INVALID_WEBHOOK_URL", message="no", shows_value=False),
            ]
        ),
        IDS,
        NOW,
    )

    assert answer.status == 400
    assert msgspec.json.decode(answer.body) == {
        "error": {
            "code": "VALIDATION_ERROR",
            "message": "invalid request: gpuNum, webhookUrl",
            "timestamp": "2030-01-02T03:04:05.678Z",
            "requestId": "r",
            "correlationId": "c",
            "retryable": False,
            "validationErrors": [
                {"field": "gpuNum", "code": "INVALID_GPU_NUM", "message": "must be between 1 and 8", "value": 9},
                {"field": "webhookUrl", "code": "INVALID_WEBHOOK_URL", "message": "no"},
            ],
        }
    }


def test_retry_after_is_in_body_and_header_in_whole_seconds() -> None:
    """Rounded up: never too early."""
    answer = problem(errors.CircuitOpenError("the provider is failing", retry_after_seconds=11.2), IDS, NOW)

    assert answer.status == 503
    assert answer.headers["retry-after"] == "12"
    assert msgspec.json.decode(answer.body)["error"]["retryAfter"] == 12


def test_an_unforeseen_error_shows_nothing_of_itself() -> None:
    """Its message may hold anything."""
    answer = problem(RuntimeError("password=hunter2"), IDS, NOW)

    assert answer.status == 500
    assert b"hunter2" not in answer.body
