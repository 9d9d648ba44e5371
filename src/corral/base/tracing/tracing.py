"""
Traces: which request caused which reconcile and which calls, for a collector of OpenTelemetry.

Off by default: nothing of OpenTelemetry is imported then, and a span is one object that does nothing. `start` turns it
on for the process, as `configure_logging` does for the log; `otel.py` has the spans that are sent.

Spans hold ids, names of routes, jobs and calls, statuses and outcomes. They never hold bodies, addresses, keys or the
messages of errors, which may quote any of these.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Final, Protocol, Self

from corral.base.clock import Clock
from corral.domain.errors import SettingsError


class SpanKind(StrEnum):
    """What a span is about, in OpenTelemetry's words."""

    SERVER = "server"
    """A request to us."""
    CONSUMER = "consumer"
    """A job that was caused by an earlier request."""
    CLIENT = "client"
    """A call to another service."""


class Span(Protocol):
    """One part of a trace, for the length of a block; whether it failed must be noted."""

    def __enter__(self) -> Self:
        """Make it the current one."""
        ...

    def __exit__(self, *error: object) -> None:
        """End it."""
        ...

    def rename(self, name: str) -> None:
        """Change its name."""
        ...

    def note(self, *, failed: bool = False, **attributes: str | int | None) -> None:
        """Set attributes, those that are None left out; with *failed* it counts as failed."""
        ...


class Tracing(Protocol):
    """What makes and sends spans."""

    def span(self, name: str, kind: SpanKind, traceparent: str | None) -> Span:
        """A span below that of *traceparent*, or else below the current one, if there is one."""
        ...

    def current(self) -> Span | None:
        """The current span."""
        ...

    def traceparent(self) -> str | None:
        """The current span in the format of W3C Trace Context."""
        ...

    def under(self, traceparent: str | None) -> AbstractContextManager[object]:
        """A block in which the span of *traceparent* is the current one; None: there is none."""
        ...

    async def close(self) -> None:
        """Send what is left, for a short time."""
        ...


class _NoSpan:
    """The span of a process without traces."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def rename(self, name: str) -> None:
        """Do nothing."""

    def note(self, *, failed: bool = False, **attributes: str | int | None) -> None:
        """Do nothing."""


NO_SPAN: Final = _NoSpan()
_tracing: Tracing | None = None


def start(role: str, clock: Clock) -> None:
    """
    Turn traces on. Call `stop` at the end.

    Raises SettingsError if OpenTelemetry is not installed, or does not accept one of its variables.
    """
    global _tracing  # noqa: PLW0603  # of the process, like the configuration of the log
    try:
        from corral.base.tracing.otel import OtelTracing  # noqa: PLC0415  # only if it is wanted
    except ImportError as error:
        raise SettingsError(
            "CORRAL_TRACING=true needs OpenTelemetry, which is not installed: pip install 'corral[otel]'"
        ) from error
    try:
        _tracing = OtelTracing.open(role, clock)
    except ValueError as error:
        raise SettingsError(f"OpenTelemetry does not accept its settings (the variables OTEL_…): {error}") from error


async def stop() -> None:
    """Turn traces off, and send what is left for a short time."""
    global _tracing
    ended, _tracing = _tracing, None
    if ended is not None:
        await ended.close()


def is_on() -> bool:
    """Whether spans are sent; what is needed only for them is not computed otherwise."""
    return _tracing is not None


def span(name: str, kind: SpanKind, traceparent: str | None = None) -> Span:
    """A span below that of *traceparent*, or else below the current one; without either it begins a trace."""
    return NO_SPAN if _tracing is None else _tracing.span(name, kind, traceparent)


def call_span(name: str) -> Span:
    """The span of a call to another service, if there is a current one; calls of periodic tasks have none."""
    return NO_SPAN if _tracing is None or _tracing.current() is None else _tracing.span(name, SpanKind.CLIENT, None)


def note_instance(instance_id: str) -> None:
    """Note in the current span, if there is one, which instance it is about."""
    current = None if _tracing is None else _tracing.current()
    if current is not None:
        current.note(instance_id=instance_id)


def traceparent() -> str | None:
    """The current span, for what happens later because of it; None if there is none."""
    return None if _tracing is None else _tracing.traceparent()


def trace_id() -> str | None:
    """The id of the current trace, for the log; None if there is none."""
    found = traceparent()
    return None if found is None else found.split("-")[1]


def under(traceparent: str | None) -> AbstractContextManager[object]:
    """A block that belongs to the span of *traceparent*, or to none: for what runs in the context of another one."""
    return NO_SPAN if _tracing is None else _tracing.under(traceparent)
