"""Waits for an instance: with one live line on a terminal, without output elsewhere."""

from __future__ import annotations

import sys
from contextlib import closing, nullcontext
from datetime import datetime

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from corral.base.clock import Clock, SystemClock
from corral.cli.exit_codes import INTERRUPTED
from corral.cli.output import clean, print_note, span, styled_text
from corral.cli.pull_progress import PullReader, pull_line
from corral_client import Aim, Client, ImagePull, Instance, Progress
from corral_client.models.instances import HealthCheck


class LiveLine:
    """The progress of an instance, redrawn several times a second so that its time advances."""

    def __init__(self, aim: Aim, clock: Clock) -> None:
        self._aim = aim
        self._clock = clock
        self._spinner = Spinner("dots")
        self._begun_at = clock.now()
        self._progress: Progress | None = None
        self.pull: ImagePull | None = None

    @property
    def is_booting(self) -> bool:
        """Whether the instance may be pulling its image."""
        return self._progress is not None and self._progress.instance.status in {"creating", "starting"}

    def show_pull(self, pull: ImagePull | None) -> None:
        """Show how far the pull of the image is, as long as it is pulled."""
        self.pull = pull

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
        since = _asked_at(instance) if self._aim is Aim.READY else self._begun_at
        words = [Text(clean(instance.name), style="bold"), styled_text(instance.status)]
        words.append(Text(span((now - since).total_seconds()) + self._estimate(instance, now), style="dim"))
        if self.pull is not None and self.pull.pulling:
            words.append(Text(pull_line(self.pull)))
        elif progress.reason:
            words.append(Text(clean(progress.reason)))
        if instance.status == "health_checking" and instance.health_check is not None:
            words.append(Text(_checks(instance.health_check), style="dim"))
        return Text("  ").join(words)

    @staticmethod
    def _estimate(instance: Instance, now: datetime) -> str:
        at = instance.estimated_ready_time
        if at is None:
            return ""
        left = (at - now).total_seconds()
        return f", about {span(left)} left" if left > 0 else ", longer than usual"


def wait(client: Client, named: str, aim: Aim, *, timeout: float | None, url: str | None) -> Instance:
    """
    The instance, once it is where *aim* says.

    An interruption does not affect the service; it prints how to wait again, and exits with 130.
    """
    last: Progress | None = None
    line = LiveLine(aim, SystemClock())
    on_terminal = sys.stderr.isatty()
    shows_pull = on_terminal and aim is Aim.READY
    live = Live(line, console=Console(stderr=True), transient=True, refresh_per_second=8)
    try:
        with (
            live if on_terminal else nullcontext(),
            PullReader(client, named, line.show_pull, lambda: line.is_booting) if shows_pull else nullcontext(),
            closing(client.instances.watch(named, timeout=timeout, aim=aim)) as progress,
        ):
            for last in progress:
                line.show(last)
    except KeyboardInterrupt:
        print_note(_come_back(named, None if last is None else last.instance, aim, url))
        raise typer.Exit(INTERRUPTED) from None
    assert last is not None, "a watch yields at least once"  # noqa: S101
    return last.instance


def _asked_at(instance: Instance) -> datetime:
    """When the operation was requested: the first step of the present operation."""
    steps = instance.operation.phases.values() if instance.operation is not None else ()
    return min(steps, default=instance.created_at)


def _checks(checked: HealthCheck) -> str:
    """Which ports answer, and the last error of the others."""
    return ", ".join(
        f"port {endpoint.port} {endpoint.status}"
        + ("" if endpoint.error is None else f" ({clean(endpoint.error.message)})")
        for endpoint in checked.endpoints
    )


def _come_back(named: str, instance: Instance | None, aim: Aim, url: str | None) -> str:
    named = named if instance is None else instance.id
    place = "" if url is None else f" --url {url}"
    match aim:
        case Aim.READY:
            # One that was only started has a disk that may be needed.
            made = instance is None or instance.operation is None or instance.operation.kind == "create"
            give_up = f"Give it up with: corral {'rm' if made else 'stop'} {named}{place}"
            return f"Still at work. Come back with: corral wait {named}{place}\n{give_up}"
        case Aim.STOPPED | Aim.GONE:
            return f"Still at work. Come back with: corral wait {named} --until {aim}{place}"
