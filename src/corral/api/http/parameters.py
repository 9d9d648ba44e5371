"""Messages about invalid parameters; the framework's own name its types and constraints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from litestar import Request
from litestar.exceptions import ValidationException
from litestar.params import KwargDefinition, ParameterKwarg

from corral.domain.errors import FieldProblem

PRINTABLE: Final = "^[ -~]*$"
"""Characters of a filter; PostgreSQL accepts no NUL."""
ONE_LINE: Final = r"^[^\x00-\x1f\x7f]*$"
ID_CHARACTERS: Final = "^[A-Za-z0-9_-]*$"
ID_LIST: Final = "^[A-Za-z0-9_,-]*$"
_CHARACTERS: Final[Mapping[str | None, str]] = {
    PRINTABLE: "printable ASCII characters",
    ONE_LINE: "characters, and no control characters",
    ID_CHARACTERS: "characters out of A-Z, a-z, 0-9, _ and -",
    ID_LIST: "characters out of A-Z, a-z, 0-9, _, - and the comma",
}


def field_problems(request: Request[Any, Any, Any], error: ValidationException) -> list[FieldProblem]:
    """The problems that the framework found in *request*."""
    return [_field_problem(request, entry) for entry in error.extra or [_missing(error)]]


def _field_problem(request: Request[Any, Any, Any], entry: Any) -> FieldProblem:
    """One of the framework's errors; it does not carry the value."""
    entry = entry if isinstance(entry, dict) else {}
    code = "INVALID_QUERY" if entry.get("source") in {"query", "path"} else "VALIDATION_ERROR"
    name = str(entry.get("key", "(request)"))
    given = str(entry.get("message", "is not valid"))
    parameter = request.route_handler.parsed_fn_signature.parameters.get(name)
    if parameter is None:
        return FieldProblem(field=name, code=code, message=given, shows_value=False)
    definition = parameter.kwarg_definition
    kinds = [parameter.annotation, *(inner.annotation for inner in parameter.inner_types)]
    written = definition.name or name if isinstance(definition, ParameterKwarg) else name
    message = given if given == "is required" else accepted_form(kinds, definition) or given
    return FieldProblem(field=written, code=code, message=message, shows_value=False)


def accepted_form(kinds: list[Any], definition: object) -> str | None:
    """What a parameter of one of these *kinds* accepts, without the subject of the sentence; None for any value."""
    words = [str(word.value) for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum) for word in kind]
    if words:
        return f"must be one of {', '.join(words)}"
    if bool in kinds:
        return "must be true or false"
    if not isinstance(definition, KwargDefinition):
        return None
    if int in kinds and definition.ge is not None and definition.le is not None:
        return f"must be a whole number from {definition.ge} to {definition.le}"
    if float in kinds and definition.gt is not None and definition.le is not None:
        return f"must be a number above {definition.gt} and at most {definition.le}"
    if str in kinds and definition.max_length is not None:
        characters = _CHARACTERS.get(definition.pattern, "characters")
        return f"must have {definition.min_length or 0} to {definition.max_length} {characters}"
    return None


def _missing(error: ValidationException) -> dict[str, str]:
    """A required parameter that was left out: the framework names it in its message only."""
    named = re.match(r"Missing required (\w+) parameter '(.+?)'", error.detail)
    return {"source": named[1], "key": named[2], "message": "is required"} if named else {}
