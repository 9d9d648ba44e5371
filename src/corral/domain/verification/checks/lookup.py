"""What Corral assumes about the lookup of one instance: its form, endpoints, logins, logs, spot and data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from corral.domain.machine.access import ssh_target, web_address
from corral.domain.verification.evidence import AccountProbe, DiffersError, Evidence, NotSeenError
from corral.domain.verification.json_values import Kind, mapping, number, objects, text, word, wrong_fields
from corral.domain.verification.judge import Check

_FIELDS: Final[Mapping[str, Kind]] = {
    "id": Kind.TEXT,
    "name": Kind.TEXT,
    "status": Kind.TEXT,
    "clusterId": Kind.TEXT,
    "gpuNum": Kind.NUMERIC,
    "portMappings": Kind.ARRAY,
    "statusError": Kind.OBJECT,
}
_EXTRAS: Final[Mapping[str, Kind]] = {
    "productId": Kind.TEXT,
    "productName": Kind.TEXT,
    "rootfsSize": Kind.NUMERIC,
    "createdAt": Kind.NUMERIC,
}
_SPOT: Final[Mapping[str, Kind]] = {"spotStatus": Kind.TEXT, "spotReclaimTime": Kind.NUMERIC}
_SPOT_STATUSES: Final = frozenset({"", "running", "notified", "reclaiming", "terminated"})
_SLACK: Final = timedelta(seconds=90)
"""A deadline this far in the past may just be over."""


def _bare(seen: Evidence) -> str:
    wrong = wrong_fields([seen.instance()], _FIELDS)
    if wrong:
        raise DiffersError("; ".join(wrong))
    return f"{len(_FIELDS)} fields"


def _extras(seen: Evidence) -> str:
    wrong = wrong_fields([seen.instance()], _EXTRAS)
    if wrong:
        raise DiffersError("; ".join(wrong))
    return ", ".join(_EXTRAS)


def _endpoints(seen: Evidence) -> str:
    found = objects(_running(seen).get("portMappings"))
    if not found:
        raise NotSeenError("the instance that was looked up has no port")
    for port in found:
        endpoint, kind = text(port.get("endpoint")), text(port.get("type"))
        if number(port.get("port")) is None or kind not in {"http", "tcp"}:
            raise DiffersError(f"a port has the number {word(port.get('port'))} and the type {word(port.get('type'))}")
        if kind == "http" and web_address(endpoint) is None:
            raise DiffersError("the endpoint of an http port is not an address of the web")
        if kind == "tcp" and not _is_place(endpoint):
            raise DiffersError("the endpoint of a tcp port is not HOST:PORT without a scheme")
    return f"{len(found)} ports: http as an address, tcp as HOST:PORT"


def _ssh(seen: Evidence) -> str:
    ssh = mapping(_running(seen).get("connectComponentSSH"))
    if not ssh:
        raise DiffersError("there is no `connectComponentSSH`")
    if ssh.get("isRunning") is False:
        raise NotSeenError("the instance that was looked up has no ssh")
    if ssh_target(text(ssh.get("sshCommand"))) is None:
        raise DiffersError("`sshCommand` is not `ssh -p PORT USER@HOST`")
    if not text(ssh.get("password")):
        raise DiffersError("there is no password")
    return "a command with user, host and port, and a password"


def _logs(seen: Evidence) -> str:
    log = mapping(seen.instance().get("connectComponentLog"))
    if not log:
        raise DiffersError("there is no `connectComponentLog`")
    found = [text(log.get(name)) for name in ("systemLogAddress", "instanceLogAddress")]
    if not any(found):
        raise DiffersError("there are no addresses")
    if any(web_address(address) is None for address in found):
        raise DiffersError("an address is not one of the web")
    return "addresses of the system log and the instance log"


def _statuses_of_spot(seen: Evidence) -> str:
    found = seen.some(AccountProbe.LIST, "instances")
    wrong = wrong_fields(found, _SPOT)
    if wrong:
        raise DiffersError("; ".join(wrong))
    unknown = sorted({word(item["spotStatus"]) for item in found if item["spotStatus"] not in _SPOT_STATUSES})
    if unknown:
        raise DiffersError(f"not known: {', '.join(unknown)}")
    return f"spotStatus and spotReclaimTime of {len(found)} instances"


def _spot_on_lookup(seen: Evidence) -> str:
    wrong = wrong_fields([seen.instance()], _SPOT)
    if wrong:
        raise DiffersError("; ".join(wrong))
    return ", ".join(_SPOT)


def _reclaim_time(seen: Evidence) -> str:
    answer = seen.answer(AccountProbe.LIST)
    announced = [item for item in seen.some(AccountProbe.LIST, "instances") if item.get("spotStatus") == "notified"]
    if not announced:
        raise NotSeenError("no spot machine is about to be reclaimed")
    for item in announced:
        at = number(item.get("spotReclaimTime"))
        if not at or at < 0 or at > _FAR:
            raise DiffersError("a machine with notice has no time")
        if datetime.fromtimestamp(at, UTC) < answer.received_at - _SLACK:
            raise DiffersError("the time is in the past: it is that of the notice")
    return "the time is ahead: a deadline"


def _spot_end(seen: Evidence) -> str:
    ended = [item for item in seen.some(AccountProbe.LIST, "instances") if item.get("spotStatus") == "terminated"]
    if not ended:
        raise NotSeenError("no reclaimed spot machine is in the list")
    others = sorted({word(item.get("status")) for item in ended if item.get("status") != "exited"})
    if others:
        raise DiffersError(f"a reclaimed machine is {', '.join(others)}")
    return "a reclaimed machine is `exited`"


def _kept_days(seen: Evidence) -> str:
    days = number(seen.instance().get("keepDataDay"))
    if days is None:
        raise DiffersError("there is no number `keepDataDay`")
    if days <= 0:
        raise DiffersError(f"`keepDataDay` is {days:g}")
    return f"{days:g} days"


_FAR: Final = 4_102_444_800.0


def _running(seen: Evidence) -> Mapping[str, object]:
    found = seen.instance()
    if found.get("status") != "running":
        raise NotSeenError("the instance that was looked up is not running")
    return found


def _is_place(endpoint: str) -> bool:
    if "://" in endpoint:
        return False
    try:
        parts = urlsplit(f"//{endpoint}")
        return bool(parts.hostname) and parts.port is not None
    except ValueError:
        return False


CHECKS: Final = (
    Check(
        id="lookup.fields",
        assumes="the lookup by id gives the instance itself, without a wrapper, with the documented fields",
        otherwise="an answer without an id counts as no answer; what else cannot be read counts as absent",
        copes=False,
        judge=_bare,
    ),
    Check(
        id="lookup.product",
        assumes="the lookup also has productId, productName, rootfsSize and createdAt, which are not documented",
        otherwise="they are taken from the list",
        judge=_extras,
    ),
    Check(
        id="lookup.endpoints",
        assumes="a running instance's http ports have web addresses and its tcp ports HOST:PORT",
        otherwise="health checks fail on an endpoint that cannot be connected to, and the instance becomes failed",
        copes=False,
        judge=_endpoints,
    ),
    Check(
        id="lookup.ssh",
        assumes="a running instance with ssh has a command `ssh -p PORT USER@HOST` and a password",
        otherwise="`corral ssh` and the credentials show no ssh; a command with more in it is not passed on",
        judge=_ssh,
    ),
    Check(
        id="lookup.logs",
        assumes="the lookup has http addresses of the system log and the instance log",
        otherwise="`corral logs` says that there is no log",
        judge=_logs,
    ),
    Check(
        id="lookup.spot",
        assumes="the lookup has spotStatus and spotReclaimTime, which are documented for the list only",
        otherwise="they are taken from the list",
        judge=_spot_on_lookup,
    ),
    Check(
        id="spot.statuses",
        assumes="the list has spotStatus, one of the documented words, and spotReclaimTime",
        otherwise="a reclaim is noticed only when the machine stops",
        copes=False,
        judge=_statuses_of_spot,
    ),
    Check(
        id="spot.reclaim_time",
        assumes="spotReclaimTime is when a spot machine will be taken back, not when that was announced",
        otherwise="the time that Corral shows is that of the notice; the machine goes about an hour later",
        copes=False,
        judge=_reclaim_time,
    ),
    Check(
        id="spot.end",
        assumes="a reclaimed spot machine is stopped, not removed",
        otherwise="the instance becomes terminated when its machine is gone",
        judge=_spot_end,
    ),
    Check(
        id="lookup.kept_days",
        assumes="the lookup says for how many days a stopped machine's data is kept (`keepDataDay`)",
        otherwise="`dataKeptUntil` is shown only where `releaseDataAt` can be read",
        judge=_kept_days,
    ),
)
