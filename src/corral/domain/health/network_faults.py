"""Categories of network failures when connecting to an instance or a receiver."""

from __future__ import annotations

from enum import StrEnum


class FaultCategory(StrEnum):
    """The category of a failure; the values are public."""

    TIMEOUT = "timeout"
    CONNECTION_REFUSED = "connection_refused"
    CONNECTION_RESET = "connection_reset"
    DNS_RESOLUTION_FAILED = "dns_resolution_failed"
    NETWORK_UNREACHABLE = "network_unreachable"
    BAD_GATEWAY = "bad_gateway"
    SERVICE_UNAVAILABLE = "service_unavailable"
    SERVER_ERROR = "server_error"
    CLIENT_ERROR = "client_error"
    SSL_ERROR = "ssl_error"
    INVALID_RESPONSE = "invalid_response"
    ADDRESS_REFUSED = "address_refused"
    """The address is private, and Corral does not connect to it."""
    UNKNOWN = "unknown"

    @property
    def retryable(self) -> bool:
        """Whether a later attempt may succeed; a booting machine causes most of these."""
        return self not in _PERMANENT


_PERMANENT = frozenset(
    {FaultCategory.CLIENT_ERROR, FaultCategory.SSL_ERROR, FaultCategory.INVALID_RESPONSE, FaultCategory.ADDRESS_REFUSED}
)
"""The response or the address is wrong: the same request fails the same way."""


def status_category(status: int) -> FaultCategory:
    """The category of an HTTP *status* that is not a success."""
    named = _BY_STATUS.get(status)
    if named is not None:
        return named
    if 500 <= status <= 599:  # noqa: PLR2004  # the class of the status is its first digit
        return FaultCategory.SERVER_ERROR
    if 400 <= status <= 499:  # noqa: PLR2004
        return FaultCategory.CLIENT_ERROR
    return FaultCategory.INVALID_RESPONSE


_BY_STATUS = {
    408: FaultCategory.TIMEOUT,
    425: FaultCategory.SERVICE_UNAVAILABLE,
    429: FaultCategory.SERVICE_UNAVAILABLE,
    502: FaultCategory.BAD_GATEWAY,
    503: FaultCategory.SERVICE_UNAVAILABLE,
    504: FaultCategory.TIMEOUT,
}
"""Statuses with a category of their own; 408, 425 and 429 are temporary although they begin with a 4."""
