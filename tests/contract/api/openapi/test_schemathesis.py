"""
The running service against its own OpenAPI document, tested by an independent program.

Valid and invalid requests, odd Unicode, missing and misplaced parts: the answer is always one that the document lists,
in the shape it says, and never a 5xx.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance, unsupported_method
from support.processes.process import serving

from corral.api.openapi.document import operations

DOCUMENT = Path(__file__).parents[4] / "docs/reference/openapi.json"
ENDLESS = "/api/events/stream"
LENIENT = (
    negative_data_rejection,  # numbers may come as strings, and unknown fields are ignored
    positive_data_acceptance,  # a name that fits the pattern need not exist
    unsupported_method,  # tested in test_every_route.py, also for paths that do not exist
)


def _keyless() -> dict[str, Any]:
    """The document as it holds on a loopback address, where no key is needed."""
    found: dict[str, Any] = msgspec.json.decode(DOCUMENT.read_bytes())
    found["components"].pop("securitySchemes")
    for _, _, operation in operations(found):
        operation.pop("security")
    return found


schema = schemathesis.openapi.from_dict(_keyless()).exclude(path=ENDLESS)


@pytest.fixture(scope="module")
def address(short_dir: Path) -> Generator[str]:
    """A service of its own, with the simulator for a provider."""
    with asyncio.Runner() as runner:
        service = serving(short_dir / "asked" / ".corral", LOG_LEVEL="error")
        running = runner.run(service.__aenter__())
        yield running.address
        runner.run(service.__aexit__(None, None, None))


@schema.parametrize()
@settings(max_examples=12, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_the_document_lists(case: Any, address: str) -> None:
    """No 5xx, no undocumented status, header or shape."""
    case.call_and_validate(base_url=address, excluded_checks=list(LENIENT))
