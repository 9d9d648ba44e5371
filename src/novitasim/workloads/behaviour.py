"""
How the program inside an instance answers a health check.

A pure function of the behaviour and of how long the instance has been running.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from novitasim.settings import Settings
from novitasim.world.instance import Instance

ENV = "SIM_GUEST"

_BAD_GATEWAY = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)
_LOGIN = "<html><head><title>Sign in</title></head><body><form>Password <input type=password></form></body></html>"
_HELLO = "<html><head><title>Ready</title></head><body><h1>It works</h1></body></html>"
# A page that mentions bad gateways without being an error page: long, as error pages are short.
_LONG = (
    "<html><head><title>Operations handbook</title></head><body>"
    + "<p>When a reader sees a bad gateway or service unavailable page, look at the upstream first.</p>" * 400
    + "</body></html>"
)
_BEHAVIOUR = re.compile(r"(healthy|login|gateway_200|long_page|refused|hang|slow|status)(?::(\d+(?:\.\d+)?))?")
_OK, _UNAUTHORIZED, _BAD = 200, 401, 502

MEANING = {
    "`healthy`": "200 with a page",
    "`slow:SECONDS`": "502 Bad Gateway for so long after it runs, then healthy",
    "`gateway_200`": "200 with a Bad Gateway page, as some proxies do",
    "`login`": "401 with a login page",
    "`long_page`": "200 with a long page that only mentions bad gateways",
    "`status:CODE`": "that HTTP status",
    "`refused`": "connections are refused (its tcp ports too)",
    "`hang`": "connections are accepted, nothing is ever answered",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """A behaviour and its number (seconds of a slow start, or a status)."""

    kind: str
    number: float = 0.0


@dataclass(frozen=True, slots=True)
class Page:
    """An HTTP response of a workload, or of the proxy in front of it."""

    status: int
    html: str


BAD_GATEWAY = Page(_BAD, _BAD_GATEWAY)


def workload_of(instance: Instance, settings: Settings) -> Workload:
    """The behaviour of an instance: its SIM_GUEST, else the first rule its name matches, else the setting."""
    for env in instance.order.envs:
        if env.key == ENV and (found := _read(env.value)) is not None:
            return found
    for rule in filter(None, settings.guest_rules.split(";")):
        pattern, _, words = rule.rpartition("=")
        if re.search(pattern, instance.order.name) and (found := _read(words)) is not None:
            return found
    return _read(settings.guest) or Workload("healthy")


def page(workload: Workload, running_for: float) -> Page | None:
    """What a web port answers after so many seconds; None if it never does."""
    match workload.kind:
        case "hang" | "refused":
            return None
        case "login":
            return Page(_UNAUTHORIZED, _LOGIN)
        case "gateway_200":
            return Page(_OK, _BAD_GATEWAY)
        case "long_page":
            return Page(_OK, _LONG)
        case "slow" if running_for < workload.number:
            return BAD_GATEWAY
        case "status":
            return Page(int(workload.number), f"<html><body>{int(workload.number)}</body></html>")
        case _:
            return Page(_OK, _HELLO)


def _read(words: str) -> Workload | None:
    match = _BEHAVIOUR.fullmatch(words.strip())
    return Workload(match[1], float(match[2] or 0)) if match else None
