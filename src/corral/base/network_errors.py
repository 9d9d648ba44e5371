"""
What a failed connection or HTTP exchange means, in the words of `domain/health/network_faults.py`.

The one place that interprets exceptions of aiohttp and the operating system for health probes and webhooks. A test
walks aiohttp's exceptions and fails on one that has no row here.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import Mapping

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from corral.domain.health.network_faults import FaultCategory as Category

REFUSED = "is a loopback, private, link-local or otherwise reserved address"


class AddressRefusedError(OSError):
    """The address must not be connected to; an OSError, because aiohttp's connector passes it on."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EACCES, f"{what} {REFUSED}")


_EXCEPTIONS: Mapping[Category, tuple[type[BaseException], ...]] = {
    Category.ADDRESS_REFUSED: (AddressRefusedError,),
    Category.DNS_RESOLUTION_FAILED: (aiohttp.ClientConnectorDNSError, socket.gaierror),
    Category.SSL_ERROR: (aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch, ssl.SSLError),
    Category.TIMEOUT: (aiohttp.ServerTimeoutError, TimeoutError),
    Category.CONNECTION_RESET: (
        aiohttp.ClientConnectionResetError,
        aiohttp.ServerDisconnectedError,
        aiohttp.ServerConnectionError,
        aiohttp.ClientConnectionError,  # "connection closed", without an error of the system
        aiohttp.UploadAbortedError,
        asyncio.IncompleteReadError,
    ),
    Category.INVALID_RESPONSE: (
        *(aiohttp.ClientPayloadError, aiohttp.ClientResponseError, aiohttp.RedirectClientError, HttpProcessingError),
        # Not a valid address, as in a redirect.
        *(aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, UnicodeError, ValueError),
    ),
}
NAMED_FAULTS = {kind: category for category, kinds in _EXCEPTIONS.items() for kind in kinds}
"""Exceptions that the class alone identifies; the nearest class in the inheritance order counts."""

SYSTEM_FAULTS = (aiohttp.ClientOSError, OSError)
"""Exceptions that the error number identifies."""

_NUMBERS = {
    Category.CONNECTION_REFUSED: (errno.ECONNREFUSED,),
    Category.CONNECTION_RESET: (errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE),
    Category.TIMEOUT: (errno.ETIMEDOUT,),
    Category.NETWORK_UNREACHABLE: (
        *(errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL),
    ),
}
_BY_NUMBER = {number: category for category, numbers in _NUMBERS.items() for number in numbers}

EXCHANGE_ERRORS = (aiohttp.ClientError, HttpProcessingError, OSError, EOFError, ValueError)
"""Everything a connection or an HTTP exchange may raise (a time-out is an OSError)."""

_MESSAGES = {
    Category.TIMEOUT: "did not answer in time",
    Category.CONNECTION_REFUSED: "refused the connection",
    Category.CONNECTION_RESET: "closed the connection before it answered",
    Category.DNS_RESOLUTION_FAILED: "its host name cannot be resolved",
    Category.NETWORK_UNREACHABLE: "cannot be reached",
    Category.SSL_ERROR: "its TLS handshake or certificate is not valid",
    Category.ADDRESS_REFUSED: f"its address {REFUSED}, and is not connected to",
    Category.INVALID_RESPONSE: "answered something that is not valid HTTP, or its address is not valid",
}


def fault_category(error: BaseException) -> Category:
    """The category of anything in `EXCHANGE_ERRORS`; UNKNOWN for anything else."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, AddressRefusedError):
        return Category.ADDRESS_REFUSED  # also from the resolver, where it would count as a failed lookup
    for kind in type(error).__mro__:
        if kind in NAMED_FAULTS:
            return NAMED_FAULTS[kind]
        if kind in SYSTEM_FAULTS and isinstance(error, OSError):
            return _system_category(error)
    return Category.UNKNOWN


def fault_message(error: BaseException) -> str:
    """
    A public description of what happened.

    Not the libraries' texts, because they contain addresses, which may contain secrets.
    """
    return _MESSAGES.get(fault_category(error), f"failed in an unforeseen way ({type(error).__name__})")


def _system_category(error: OSError) -> Category:
    if isinstance(error, aiohttp.ClientConnectorError):
        return fault_category(error.os_error)
    if error.errno is not None:
        return _BY_NUMBER.get(error.errno, Category.UNKNOWN)
    # Several addresses failed in several ways: the event loop joins the texts and drops the numbers.
    numbers = map(int, re.findall(r"\[Errno (\d+)\]", str(error)))
    return next((_BY_NUMBER[number] for number in numbers if number in _BY_NUMBER), Category.UNKNOWN)
