"""What neither callers nor the provider's API say: pages of instances, files to import, settings, and SDK answers."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec
from dotenv import dotenv_values

from corral.base.settings.configuration import load
from corral.domain.errors import MalformedError, SettingsError
from corral.domain.health.checks import BODY_LIMIT, answer_failure
from corral.engine.recovery import archive
from corral.health.probe import _unpacked
from corral_client.errors import CorralApiError, ServerError, error_of
from corral_client.events import StreamDecoder, StreamMessage, read_event
from support.fuzz.laws import SECRET_LENGTH, is_reported_well
from support.fuzz.target import SEEDS, headed, status_in

_SECRET_SETTINGS: Final = ("NOVITA_API_KEY", "DATABASE_URL", "WEBHOOK_SECRET")


def read_page(data: bytes) -> None:
    """What an instance's port answers, whatever its packing and type: it is healthy or not, and that in our words."""
    (status, *more), body = headed(data, "200")
    content_type, encoding = " ".join(more[:-1]), more[-1] if more else ""
    unpacked = _unpacked(body[:BODY_LIMIT], encoding)
    assert len(unpacked) <= BODY_LIMIT
    failure = answer_failure(status_in(status), content_type or None, unpacked)
    assert failure is None or len(failure.message) < 100


def _columns() -> dict[str, frozenset[str]]:
    """The columns of every kind, as in the seeds."""
    lines = [json.loads(file.read_bytes()) for file in (SEEDS / "archive").iterdir() if file.name.isalpha()]
    return {line["kind"]: frozenset(line["row"]) for line in lines if "kind" in line}


_COLUMNS: Final[Mapping[str, frozenset[str]]] = _columns()


def read_archive(data: bytes) -> None:
    """A line of a file to import, be it the first or a later one: read, or refused with its number."""
    try:
        header = archive.read_header(data, newest_schema=9)
        assert header.format == archive.FORMAT
    except MalformedError as error:
        is_reported_well(error, begins="line 1: ")
    try:
        kind, row = archive._read(data, 7, _COLUMNS)
    except MalformedError as error:
        is_reported_well(error, begins="line 7: ")
    else:
        assert frozenset(msgspec.json.decode(row, type=dict[str, msgspec.Raw])) == _COLUMNS[kind]


def read_settings(data: bytes) -> None:
    """The text of an `.env` file: settings, or every bad one named; a secret never quoted."""
    text = data.decode("utf-8", "replace")
    try:
        found = load({}, dotenv=text)
    except SettingsError as error:
        # What is accepted is our own text: a value cut short, "postgresql:/", may be a part of it.
        reported = re.sub(r": accepted is .*", "", str(error))
    else:
        reported = "\n".join(f"{one.name}={one.value}" for one in found.shown)
        assert all(one.value in {"", "********"} for one in found.shown if one.name in _SECRET_SETTINGS)
    assert len(reported) <= 2 * len(text) + 20_000
    values = dotenv_values(stream=io.StringIO(text), interpolate=False)
    for secret in filter(None, map(values.get, _SECRET_SETTINGS)):
        if len(secret) >= SECRET_LENGTH and text.count(secret) == 1:
            assert secret not in reported, "a secret is quoted"


def read_stream(data: bytes) -> None:
    """A stream of events: the same messages in whatever pieces it comes."""
    whole = list(StreamDecoder().feed(data))
    decoder, pieces = StreamDecoder(), list[StreamMessage]()
    step = max(1, len(data) // 13)
    for at in range(0, len(data), step):
        pieces += decoder.feed(data[at : at + step])
    assert pieces == whole
    assert all(one.retry_seconds is None or one.retry_seconds >= 0 for one in whole)
    for one in whole[:20]:
        with suppress(ServerError):
            read_event(one.data)


def read_problem(data: bytes) -> None:
    """An answer that is an error, from Corral or from a proxy before it: one of the SDK's errors."""
    (status, *more), body = headed(data, "500")
    error = error_of(status_in(status, 500), {"Retry-After": " ".join(more)} if more else {}, body)
    assert isinstance(error, CorralApiError)
    assert error.retry_after is None or error.retry_after >= 0
    assert str(error)
