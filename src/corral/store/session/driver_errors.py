"""Which errors of the database driver are temporary, and their messages as StoreUnavailableError."""

from __future__ import annotations

import asyncio
from typing import Final

import asyncpg

from corral.domain.errors import StoreUnavailableError

RETRY_AFTER_SECONDS: Final = 2.0

UNREACHABLE: tuple[type[BaseException], ...] = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncio.TimeoutError,
    asyncpg.OperatorInterventionError,  # class 57: cancelled, shut down, starting up
    asyncpg.InsufficientResourcesError,  # class 53: disk full, out of memory, too many connections
    asyncpg.TransactionRollbackError,  # class 40: deadlock, serialization failure
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    asyncpg.PostgresSystemError,  # class 58: I/O errors of the server
)
"""What asyncpg raises when the server has a problem and not the statement: the same statement may succeed later."""

DISK_FULL: Final = "the database's disk is full"
READ_ONLY: Final = "the database is read-only at the moment"
NO_SESSION: Final = "the database has no session left for a new connection (is the pool of a pooler too small?)"

_REASONS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (asyncpg.ReadOnlySQLTransactionError, READ_ONLY),
    (asyncpg.DiskFullError, DISK_FULL),
    (asyncpg.TooManyConnectionsError, "the database has no connection left"),
    (asyncpg.InsufficientResourcesError, "the database lacks resources"),
    (asyncpg.QueryCanceledError, "the database cancelled the statement"),
    (asyncpg.TransactionRollbackError, "the database rolled the transaction back"),
    (asyncpg.LockNotAvailableError, "the database did not get a lock in time"),
    (asyncio.TimeoutError, "the database did not answer in time"),
)


class NoSessionError(TimeoutError):
    """A new connection was accepted, but its first statement was not answered."""


class driver_errors:  # noqa: N801  # used like a function: `with driver_errors():`
    """
    Raises StoreUnavailableError for temporary errors of the driver; errors of statements pass unchanged.

    A task that is cancelled within the block ends with CancelledError. asyncpg waits for the server before it gives the
    connection back, and raises a time-out instead of the cancellation if the server does not answer. A loop that goes
    on after StoreUnavailableError would never end.
    """

    def __init__(self) -> None:
        self._cancelled_before = 0

    def __enter__(self) -> None:
        """Begin."""
        self._cancelled_before = _cancellations()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise our error in place of the driver's."""
        if isinstance(error, UNREACHABLE):
            if _cancellations() > self._cancelled_before:
                raise asyncio.CancelledError from error
            raise StoreUnavailableError(_reason(error), retry_after_seconds=RETRY_AFTER_SECONDS) from error


def _reason(error: BaseException) -> str:
    if isinstance(error, NoSessionError):
        return NO_SESSION
    return next((words for kind, words in _REASONS if isinstance(error, kind)), "the database cannot be reached")


def _cancellations() -> int:
    """How often the present task was asked to cancel, without the requests that it has dealt with."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
