"""Adds to the OpenAPI document the bodies that `domain/requests` reads instead of the framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody

from corral.domain.requests.fields import JsonSchema


def with_body(schema: JsonSchema, *, required: bool = False) -> type[Operation]:
    """The class of an operation that takes a body with *schema*."""
    body = RequestBody(required=required, content={"application/json": OpenAPIMediaType(schema=cast("Any", schema))})

    @dataclass
    class OperationWithBody(Operation):
        def __post_init__(self) -> None:
            self.request_body = body

    return OperationWithBody
