"""The body of a request to create an API key: its fields, and reading them."""

from __future__ import annotations

from dataclasses import dataclass

from corral.domain.access import Access, is_key_name
from corral.domain.requests.fields import Field, Fields, InvalidFieldError, Problems, Rule, body_schema, read_fields

_NAME_PATTERN = "^[A-Za-z0-9_.@-]{1,64}$"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """A key to create."""

    name: str
    access: Access = Access.VIEWER


def _name(value: object) -> str:
    if not isinstance(value, str) or not is_key_name(value):
        raise InvalidFieldError("must have 1 to 64 letters, digits, '_', '-', '.' and '@'")
    return value


def _role(value: object) -> Access:
    if not isinstance(value, str) or value not in set(Access):
        raise InvalidFieldError(f"must be one of {', '.join(Access)}")
    return Access(value)


_FIELDS: Fields = {
    "name": Field(
        "name",
        "INVALID_KEY_NAME",
        Rule(_name, {"type": "string", "pattern": _NAME_PATTERN}),
        "The name of its user, as shown in the audit log and as the owner of instances.",
        "olga",
        required=True,
    ),
    "access": Field(
        "role",
        "INVALID_ROLE",
        Rule(_role, {"type": "string", "enum": list(Access)}),
        "viewer reads; operator also acts on instances; admin also manages keys, caches and jobs.",
        "operator",
    ),
}
KEY_BODY = body_schema("Unknown fields are ignored.", _FIELDS, KeyRequest)


def read_key_request(raw: object) -> KeyRequest | Problems:
    """The request in *raw*, a decoded JSON body; or every problem with it."""
    values, problems = read_fields(raw, _FIELDS)
    return problems or KeyRequest(**values)
