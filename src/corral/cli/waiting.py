"""Waiting for an instance on a terminal: one live line. Without a terminal: silence until it is over."""

from __future__ import annotations

import sys
from contextlib import closing, nullcontext
from datetime import datetime

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from corral.cli.exits import INTERRUPTED
from corral.cli.output import clean, print_note, span, styled_text
from corral.clock import Clock, SystemClock
from corral_client import Aim, Client, Instance, Progress


class LiveLine:
    """How far an instance is, drawn anew several times a second so that its time moves."""

    def __init__(self, aim: Aim, clock: Clock) -> None:
        self._aim = aim
        self._clock = clock
        self._spinner = Spinner("dots")
        self._begun_at = clock.now()
        self._progress: Progress | None = None

    def show(self, progress: Progress) -> None:
        """Show *progress* from now on."""
        self._progress = progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The line at this moment."""
        if self._progress is not None:
            self._spinner.update(text=self.line(self._progress, self._clock.now()))
        yield self._spinner

    def line(self, progress: Progress, now: datetime) -> Text:
        """Name, status, time and reason."""
        instance = progress.instance
        since = instance.created_at if self._aim is Aim.READY else self._begun_at
        words = [Text(clean(instance.name), style="bold"), styled_text(instance.status)]
        words.append(Text(span((now - since).total_seconds()) + self._estimate(instance, now), style="dim"))
        if progress.reason:
            words.append(Text(clean(progress.reason)))
        return Text("  ").join(words)

    @staticmethod
    def _estimate(instance: Instance, now: datetime) -> str:
        at = instance.estimated_ready_time
        if at is None:
            return ""
        left = (at - now).total_seconds()
        return f", about {span(left)} left" if left > 0 else ", longer than usual"


def wait(client: Client, named: str, aim: Aim, *, timeout: float | None, url: str) -> Instance:
    """
    The instance, once it is where *aim* says.

    An interruption leaves the work as it is, says how to come back, and exits with 130.
    """
    last: Progress | None = None
    line = LiveLine(aim, SystemClock())
    live = Live(line, console=Console(stderr=True), transient=True, refresh_per_second=8)
    try:
        with (
            live if sys.stderr.isatty() else nullcontext(),
            closing(client.instances.watch(named, timeout=timeout, aim=aim)) as progress,
        ):
            for last in progress:
                line.show(last)
    except KeyboardInterrupt:
        name = named if last is None else last.instance.id
        print_note(_come_back(name, aim, url))
        raise typer.Exit(INTERRUPTED) from None
    assert last is not None, "a watch yields at least once"  # noqa: S101
    return last.instance


def _come_back(named: str, aim: Aim, url: str) -> str:
    place = "" if url == "http://127.0.0.1:3000" else f" --url {url}"
    if aim is Aim.GONE:
        return f"Still being deleted. See it with: corral show {named}{place}"
    return f"Still at work. Come back with: corral wait {named}{place}\nGive it up with: corral rm {named}{place}"
