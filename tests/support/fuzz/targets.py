"""Every place where outside bytes come in, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from support.fuzz import callers, machines, outside_texts, provider, verification
from support.fuzz.target import Target

TARGETS: Final[Mapping[str, Target]] = {
    name: Target(name=name, read=read)
    for name, read in {
        "listing": provider.read_answer,
        "catalog": provider.read_answer,
        "refusal": provider.read_answer,
        "create_request": callers.read_create_body,
        "names": callers.read_names,
        "address": callers.read_address,
        "page": outside_texts.read_page,
        "archive": outside_texts.read_archive,
        "settings": outside_texts.read_settings,
        "stream": outside_texts.read_stream,
        "problem": outside_texts.read_problem,
        "log": machines.read_log,
        "login": machines.read_login,
        "measurements": machines.read_measurements,
        "bill": provider.read_answer,
        "verification": verification.read_answers,
    }.items()
}
"""Four of them share their function: what they begin with decides where they get to."""
