"""
The two logs of an instance: what the provider did with it (`system`) and what its program wrote (`instance`).

Every line follows from the instance and its timeline, so a log needs no storage. Values of environment variables are
never written, only their names. Pure.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from itertools import pairwise

from novitasim.settings import Settings
from novitasim.workloads.image_pull import Line, pull_lines
from novitasim.world.instance import Instance
from novitasim.world.timeline import Status, Step

ENV = "SIM_LOG"
"""The variable of an instance that sets how its log streams behave."""

MEANING = {
    "`normal`": "the lines so far, and with `follow` those to come until the instance is removed",
    "`cut`": "the connection breaks after half of the lines so far",
    "`stall`": "half of the lines so far, then nothing, and the connection stays open",
    "`endless`": "lines without end, as fast as the client reads",
    "`long_line`": "lines of 1 MiB without end",
    "`garbage`": "bytes that are not UTF-8, NULs and the escape sequences of a terminal between the lines",
    "`redirect:URL`": "302 to that URL (an address of cloud metadata, if none is given)",
    "`elsewhere:URL`": "get shows that URL (one of another host, if none is given) as the address of both logs",
    "`status:CODE`": "that HTTP status",
}

_BEHAVIOUR = re.compile(r"(normal|cut|stall|endless|long_line|garbage|redirect|elsewhere|status)(?::(\S+))?")
_ECHO = re.compile(r"""(?:(?:ba)?sh\s+-c\s+)?["']?echo\s+(.*?)["']?""")
_EVENTS = {
    Status.TO_CREATE: "Instance {id} is scheduled in {cluster}",
    Status.CREATING: "Creating container",
    Status.RUNNING: "Container started",
    Status.TO_START: "Start requested",
    Status.STARTING: "Starting container",
    Status.TO_STOP: "Stop requested",
    Status.STOPPING: "Stopping container",
    Status.EXITED: "Container stopped",
    Status.TO_RESTART: "Restart requested",
    Status.RESTARTING: "Restarting container",
    Status.RESETTING: "Replacing container",
    Status.MIGRATING: "Moving to another machine",
    Status.FREEZING: "Machine frozen",
    Status.TO_REMOVE: "Removal requested",
    Status.REMOVING: "Removing container",
    Status.REMOVED: "Container removed",
}
# A pull whose end is not planned, because the instance was removed or froze meanwhile, is shown at this pace.
_UNPLANNED_PULL_SECONDS = 60.0


def behaviour_of(instance: Instance, settings: Settings) -> tuple[str, str]:
    """The kind of an instance's log streams and its argument: its SIM_LOG, else the setting."""
    for env in instance.order.envs:
        if env.key == ENV and (match := _BEHAVIOUR.fullmatch(env.value.strip())):
            return match[1], match[2] or ""
    match = _BEHAVIOUR.fullmatch(settings.log_stream)
    return (match[1], match[2] or "") if match else ("normal", "")


def lines(instance: Instance, kind: str, settings: Settings, *, since: float, until: float) -> list[Line]:
    """The lines of a log from *since* to *until*, both included, at most `log_kept_lines`."""
    found = _system(instance) if kind == "system" else _program(instance, settings, since, until)
    due = sorted((line for line in found if since <= line.at <= until), key=lambda line: line.at)
    return due[-settings.log_kept_lines :]


def rendered(line: Line, settings: Settings) -> str:
    """The line as it is sent."""
    if not settings.log_timestamps:
        return line.text
    return f"{datetime.fromtimestamp(line.at, UTC).isoformat(timespec='milliseconds')} {line.text}"


def _system(instance: Instance) -> list[Line]:
    found: list[Line] = []
    for step, upcoming in pairwise((*instance.course, None)):
        if step is None:
            continue
        if text := _EVENTS.get(step.status):
            found.append(Line(step.at, text.format(id=instance.id, cluster=instance.order.cluster_id)))
        if step.status is Status.PULLING:
            found += _pull(instance, step, upcoming)
    if instance.failure:
        found.append(Line(instance.failure.at, f"Error: {instance.failure.message}"))
    return found


def _pull(instance: Instance, step: Step, upcoming: Step | None) -> list[Line]:
    if upcoming is not None and upcoming.status is Status.RUNNING:
        return pull_lines(instance.order.image, step.at, upcoming.at)
    cut = upcoming.at if upcoming else instance.failure.at if instance.failure else math.inf
    planned = pull_lines(instance.order.image, step.at, step.at + _UNPLANNED_PULL_SECONDS)
    return [line for line in planned if line.at <= cut]


def _program(instance: Instance, settings: Settings, since: float, until: float) -> list[Line]:
    found: list[Line] = []
    for step, upcoming in pairwise((*instance.course, None)):
        if step is None or step.status is not Status.RUNNING or step.at > until:
            continue
        ends = upcoming.at if upcoming else math.inf
        found += [Line(step.at, text) for text in _start(instance)]
        found += _ticks(step.at, max(since, step.at), min(ends, until), settings)
        if ends <= until:
            found.append(Line(ends, "Received SIGTERM, exiting"))
    return found


def _start(instance: Instance) -> list[str]:
    order = instance.order
    started = " ".join(part for part in (order.entrypoint, order.command) if part) or "the image's own command"
    texts = [f"Starting {started}"]
    names = ", ".join(env.key for env in order.envs)
    texts += [f"Environment: {names}"] if names else []
    texts += [f"Mounted {mount.id} at {mount.path}" for mount in order.mounts]
    echoed = _ECHO.fullmatch(order.command.strip())
    texts += [echoed[1]] if echoed else []
    texts += [f"Listening on {port.port}/{port.type}" for port in order.ports]
    return texts


def _ticks(began: float, since: float, until: float, settings: Settings) -> list[Line]:
    """The regular lines of a running program; only the last ones, so that a long life costs no more."""
    every = settings.log_interval_seconds
    if every <= 0:
        return []
    last = int((until - began) / every)
    first = max(1, int((since - began) / every), last - settings.log_kept_lines + 1)
    return [Line(began + number * every, f"step {number}") for number in range(first, last + 1)]
