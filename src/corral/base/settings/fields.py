"""
What a setting may be: readers of the values, and the declarations of fields.

Each declaration has the name in the environment and, as its title, what is accepted.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from corral.base import urls
from corral.domain.leases.durations import read_duration


def whole(name: str, default: int, least: int, most: int) -> Any:
    """A whole number."""
    return Field(default, alias=name, ge=least, le=most, title=f"a whole number from {least} to {most}")


def flag(name: str, *, default: bool) -> Any:
    """True or false."""
    return Field(default, alias=name, title="true or false")


def text(name: str, default: str) -> Any:
    """Text that is not empty."""
    return Field(default, alias=name, min_length=1, title="text")


def secret(name: str, *, accepts: str, least: int = 1) -> Any:
    """A secret; unset by default."""
    return Field(None, alias=name, min_length=least, title=accepts)


def choice(name: str, default: str, options: tuple[str, ...]) -> Any:
    """One of *options*."""
    return Field(default, alias=name, title="one of " + ", ".join(options))


def words(name: str, default: tuple[str, ...], *, least: int = 0, accepts: str = "a comma-separated list") -> Any:
    """A comma-separated list."""
    return Field(default, alias=name, min_length=least, title=accepts)


def address(name: str, default: str | None, *, accepts: str, holds_token: bool = False) -> Any:
    """An address; one that *holds_token* is shown only up to its host."""
    return Field(default, alias=name, title=accepts, json_schema_extra={HOLDS_TOKEN: holds_token})


def header(name: str) -> Any:
    """The name of a header."""
    accepts = "the name of a header of letters, digits and -, which has no other meaning, as in Remote-User"
    return Field(None, alias=name, title=accepts)


def duration(name: str, most_days: int) -> Any:
    """A duration of up to *most_days*; unset by default."""
    accepts = f"a duration from 1m to {most_days}d, such as 30m or 8h"
    return Field(None, alias=name, ge=timedelta(minutes=1), le=timedelta(days=most_days), title=accepts)


def accepted(is_right: Callable[[str], bool]) -> AfterValidator:
    """A validator that rejects a text, also a secret one, unless *is_right* accepts it."""

    def check(value: Any) -> Any:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if text is not None and not is_right(text):
            raise ValueError("not accepted")
        return value

    return AfterValidator(check)


def is_header_value(text: str) -> bool:
    """Whether *text* can be sent in a header: an HTTP library refuses others in every request."""
    return text.isascii() and text.isprintable() and " " not in text


def _split(value: object) -> object:
    """Read a comma-separated list; spaces around its members do not count."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _checked_origins(words: tuple[str, ...]) -> tuple[str, ...]:
    """Raise ValueError for what no browser sends, such as an origin with a path, a capital or no scheme."""
    if not all(urls.is_origin(word) for word in words):
        raise ValueError("not accepted")
    return words


_IPV4_AS_IPV6 = ipaddress.IPv6Network("::ffff:0:0/96")


def _checked_networks(addresses: tuple[str, ...]) -> tuple[str, ...]:
    """
    Raise ValueError for what is no address or network, and for a network of all addresses.

    Also for an IPv4 address written as one of IPv6: peers are known by the usual form, so it would never match.
    """
    networks = [ipaddress.ip_network(one) for one in addresses]
    if not all(one.prefixlen for one in networks) or any(
        isinstance(one, ipaddress.IPv6Network) and one.subnet_of(_IPV4_AS_IPV6) for one in networks
    ):
        raise ValueError("not accepted")
    return addresses


def is_user_header(name: str) -> bool:
    """Whether *name* can be the header with the name of a user: of none that has another meaning."""
    return _HEADER_NAME.fullmatch(name) is not None and not _TAKEN_HEADERS.fullmatch(name.lower())


_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
_TAKEN_HEADERS = re.compile(
    r"accept.*|access-control-.*|authorization|connection|content-.*|cookie|date|forwarded|host|idempotency-key"
    r"|last-event-id|origin|proxy-.*|referer|sec-.*|te|trace.*|trailer|transfer-encoding|upgrade|user-agent|via"
    r"|x-api-key|x-correlation-id|x-forwarded-(?:for|host|port|prefix|proto|server)|x-real-ip|x-request-id"
)

HOLDS_TOKEN = "x-shown-up-to-host"  # noqa: S105  # the name of a mark
"""Marks an address that is shown only up to its host."""

Words = Annotated[tuple[str, ...], BeforeValidator(_split)]
Duration = Annotated[timedelta, BeforeValidator(read_duration)]
Origins = Annotated[Words, AfterValidator(_checked_origins)]
Networks = Annotated[Words, AfterValidator(_checked_networks)]
