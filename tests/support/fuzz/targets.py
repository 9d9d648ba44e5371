"""Every place where outside bytes come in, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from support.fuzz import callers, provider, strangers
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
        "page": strangers.read_page,
        "archive": strangers.read_archive,
        "settings": strangers.read_settings,
        "stream": strangers.read_stream,
        "problem": strangers.read_problem,
    }.items()
}
"""Three of them share their function: what they begin with decides where they get to."""
