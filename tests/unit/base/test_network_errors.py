"""Every way a connection can fail has a category."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from corral.base.network_errors import EXCHANGE_ERRORS, NAMED_FAULTS, SYSTEM_FAULTS, fault_category, fault_message
from corral.domain.health.network_faults import FaultCategory

KEY = ConnectionKey(
    host="secret.example", port=443, is_ssl=True, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None
)


def descendants(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("aiohttp."):
            yield child
            yield from descendants(child)


@pytest.mark.parametrize("kind", sorted(set(descendants(aiohttp.ClientError)), key=repr))
def test_no_exception_of_the_http_library_is_unmapped(kind: type[BaseException]) -> None:
    """A release of aiohttp that adds one must not add an "unknown"."""
    assert any(ancestor in NAMED_FAULTS or ancestor in SYSTEM_FAULTS for ancestor in kind.__mro__)
    assert issubclass(kind, EXCHANGE_ERRORS)


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (TimeoutError(), FaultCategory.TIMEOUT),
        (aiohttp.SocketTimeoutError(), FaultCategory.TIMEOUT),
        (aiohttp.ServerDisconnectedError(), FaultCategory.CONNECTION_RESET),
        (ConnectionResetError(errno.ECONNRESET, "reset"), FaultCategory.CONNECTION_RESET),
        (BrokenPipeError(errno.EPIPE, "pipe"), FaultCategory.CONNECTION_RESET),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), FaultCategory.CONNECTION_REFUSED),
        (OSError(errno.EHOSTUNREACH, "no route"), FaultCategory.NETWORK_UNREACHABLE),
        (OSError(errno.EMFILE, "too many files"), FaultCategory.UNKNOWN),
        (OSError("Multiple exceptions: [Errno 5] x, [Errno 111] y"), FaultCategory.CONNECTION_REFUSED),
        (OSError("no number at all"), FaultCategory.UNKNOWN),
        (socket.gaierror(socket.EAI_NONAME, "no name"), FaultCategory.DNS_RESOLUTION_FAILED),
        (ssl.SSLError(1, "wrong version"), FaultCategory.SSL_ERROR),
        (
            aiohttp.ClientConnectorCertificateError(KEY, ssl.SSLCertVerificationError(1, "self-signed")),
            FaultCategory.SSL_ERROR,
        ),
        (
            aiohttp.ClientConnectorError(KEY, ConnectionRefusedError(errno.ECONNREFUSED, "refused")),
            FaultCategory.CONNECTION_REFUSED,
        ),
        (aiohttp.ClientConnectorError(KEY, TimeoutError()), FaultCategory.TIMEOUT),
        (
            aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(socket.EAI_AGAIN, "later")),
            FaultCategory.DNS_RESOLUTION_FAILED,
        ),
        (aiohttp.ClientPayloadError("cut"), FaultCategory.INVALID_RESPONSE),
        (aiohttp.InvalidURL("http://secret.example"), FaultCategory.INVALID_RESPONSE),
        (aiohttp.ClientError(), FaultCategory.UNKNOWN),
        (KeyError(), FaultCategory.UNKNOWN),
    ],
    ids=repr,
)
def test_an_error_gets_the_category_a_person_would_give_it(error: Exception, category: FaultCategory) -> None:
    """The category is public and decides what is tried again."""
    assert category is fault_category(error)
    assert "secret" not in fault_message(error)
