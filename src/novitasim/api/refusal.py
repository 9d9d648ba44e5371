"""
How the provider says no: its reasons, their HTTP statuses, and the one exception that carries them.

The table holds only what differs from the rule, and the rule is: HTTP 400.
"""

from __future__ import annotations

_STATUS = {
    "UNKNOWN": 500,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "INVALID_API_KEY": 403,
    "RATE_LIMIT_EXCEEDED": 429,
    "LIST_BILL_TOO_FAST": 429,
    "WALLET_NOT_FOUND": 500,
}


class RefusalError(Exception):
    """The provider's answer to a call it will not do: reason, message and HTTP status."""

    def __init__(self, reason: str, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status if status is not None else _STATUS.get(reason, 400)


def body(refusal: RefusalError, *, metadata: bool) -> dict[str, object]:
    """The JSON of a refusal."""
    content: dict[str, object] = {"code": refusal.status, "reason": refusal.reason, "message": refusal.message}
    if metadata:
        content["metadata"] = {}
    return content
