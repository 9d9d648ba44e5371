"""What Corral assumes about stopping, starting and deleting a machine: seen on the trial machine."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from corral.domain.verification.evidence import DiffersError, Evidence, NotSeenError, ProviderAnswer, Stage
from corral.domain.verification.json_values import mapping, number, objects, text, word
from corral.domain.verification.judge import Check

MOST_KEPT: Final = timedelta(days=3650)
"""A time of purge later than this is not one."""
_REFUSED_STATE: Final = "invalid state change"


def _pair(answer: ProviderAnswer | None, what: str) -> str:
    if answer is None or not answer.is_success:
        raise NotSeenError(f"the {what} was not accepted" if answer is not None else f"there was no {what}")
    if set(mapping(answer.content)) != {"instanceId", "state"}:
        raise DiffersError("an empty answer" if not answer.is_json else f"{len(mapping(answer.content))} fields")
    return "instanceId and state"


def _delete_answer(seen: Evidence) -> str:
    answer = seen.tried().deleted
    if answer is None or not answer.is_success:
        raise NotSeenError("no delete was accepted")
    if not answer.is_json or mapping(answer.content) or not isinstance(answer.content, dict):
        raise DiffersError("no JSON" if not answer.is_json else "an answer with content")
    return "an empty object"


def _reached(seen: Evidence, stage: Stage, status: str, call: ProviderAnswer | None) -> str:
    if call is not None and call.status is not None and not call.is_success:
        raise DiffersError(f"the {stage.value} was refused: {call.problem}")
    looks = seen.looks(stage)
    first = next((look.seconds for look in looks if look.status == status), None)
    if first is None:
        raise DiffersError(f"not {word(status)} after {looks[-1].seconds:.0f} s; last seen {word(looks[-1].status)}")
    return f"{word(status)} after {first:.0f} s"


def _kept_until(seen: Evidence) -> str:
    stopped = [look for look in seen.looks(Stage.STOP) if look.status == "exited"]
    if not stopped:
        raise NotSeenError("the machine was not seen stopped")
    content = mapping(stopped[-1].got.content)
    if "releaseDataAt" not in content:
        raise DiffersError("`releaseDataAt` is missing")
    at = number(content["releaseDataAt"])
    if at is None:
        raise DiffersError("`releaseDataAt` is not a number")
    ahead = at - stopped[-1].got.received_at.timestamp()
    if not 0 < ahead < MOST_KEPT.total_seconds():
        raise DiffersError("`releaseDataAt` is not a time to come in unix seconds")
    return f"`releaseDataAt` is {ahead / 86400:.1f} days ahead, in unix seconds"


def _same_endpoints(seen: Evidence) -> str:
    before = [look for look in seen.looks(Stage.BOOT) if look.status == "running"]
    after = [look for look in seen.looks(Stage.START) if look.status == "running"]
    if not before or not after:
        raise NotSeenError("the machine did not run before and after")
    if _endpoints(before[-1].got) != _endpoints(after[-1].got):
        raise DiffersError("a start gave other endpoints")
    if not _endpoints(after[-1].got):
        raise NotSeenError("the machine had no endpoint")
    return "the same after a start"


def _state_refused(seen: Evidence) -> str:
    answer = seen.tried().started_twice
    if answer is None or answer.status is None or answer.status >= 500:  # noqa: PLR2004  # says nothing
        raise NotSeenError("no start of a running machine was answered")
    if answer.is_success:
        raise DiffersError("the start of a running machine was accepted")
    content = mapping(answer.content)
    if content.get("reason") != "CONFLICT" or _REFUSED_STATE not in text(content.get("message")).lower():
        spelled = "with" if _REFUSED_STATE in text(content.get("message")).lower() else "without"
        raise DiffersError(f"{answer.problem}, {spelled} `{_REFUSED_STATE}`")
    return f"{answer.problem}, with `{_REFUSED_STATE}`"


def _gone(seen: Evidence) -> str:
    trial = seen.tried()
    if trial.deleted is None:
        raise NotSeenError("no delete was sent")
    if trial.gone_seconds is None:
        raise DiffersError("the machine was not seen to be gone")
    if trial.gone_seconds > GONE_WITHIN_SECONDS:
        raise DiffersError(f"gone after {trial.gone_seconds:.0f} s")
    return f"gone after {trial.gone_seconds:.0f} s"


def _removed_listed(seen: Evidence) -> str:
    trial = seen.tried()
    if trial.gone_seconds is None:
        raise NotSeenError("the machine was not seen to be gone")
    if trial.listed_after is not None:
        raise DiffersError(f"the list still has it, as {word(trial.listed_after.get('status'))}")
    return "the list no longer has it"


def _endpoints(got: ProviderAnswer) -> Mapping[str, str]:
    ports = objects(mapping(got.content).get("portMappings"))
    return {str(port.get("port")): text(port.get("endpoint")) for port in ports if text(port.get("endpoint"))}


GONE_WITHIN_SECONDS: Final = 120.0
"""A delete that takes longer is repeated several times. Less, and a slow minute of the provider differs."""

CHECKS: Final = (
    Check(
        id="state.refused",
        assumes="the start of a running machine is refused with CONFLICT and `invalid state change`",
        otherwise="the text decides before the reason; without it the refusal is final, and a start that raced fails",
        judge=_state_refused,
    ),
    Check(
        id="stop.answer",
        assumes="a stop is answered with instanceId and state",
        otherwise="the answer is not read; a listing shows the effect",
        judge=lambda seen: _pair(seen.tried().stopped, "stop"),
    ),
    Check(
        id="stop.time",
        assumes="a stopped machine is exited within two minutes",
        otherwise="the stop is repeated while it shows no effect, with growing pauses",
        judge=lambda seen: _reached(seen, Stage.STOP, "exited", seen.tried().stopped),
    ),
    Check(
        id="stop.kept_until",
        assumes="a stopped machine says when its data is purged, in unix seconds (`releaseDataAt`, undocumented)",
        otherwise="milliseconds and ISO 8601 are read too; else it is the last stop and `keepDataDay`",
        judge=_kept_until,
    ),
    Check(
        id="start.answer",
        assumes="a start is answered with instanceId and state",
        otherwise="the answer is not read; a listing shows the effect",
        judge=lambda seen: _pair(seen.tried().started, "start"),
    ),
    Check(
        id="start.time",
        assumes="a stopped machine can be started again, and runs within two minutes",
        otherwise="a refused start is repeated until INSTANCE_STARTUP_MAX_WAIT_TIME, then the instance is failed",
        copes=False,
        setting="INSTANCE_STARTUP_MAX_WAIT_TIME",
        judge=lambda seen: _reached(seen, Stage.START, "running", seen.tried().started),
    ),
    Check(
        id="start.endpoints",
        assumes="endpoints stay the same after a stop and a start",
        otherwise="they are read again after every start; what users copied is out of date",
        judge=_same_endpoints,
    ),
    Check(
        id="delete.answer",
        assumes="a delete is answered with an empty object",
        otherwise="the answer is not read; a listing or lookups show the effect",
        judge=_delete_answer,
    ),
    Check(
        id="delete.gone",
        assumes="a deleted machine is gone within two minutes",
        otherwise="the instance stays terminating, and the delete is repeated until the machine is gone",
        judge=_gone,
    ),
    Check(
        id="delete.listed",
        assumes="a deleted machine leaves the list",
        otherwise="one that is listed as `removed` counts as gone",
        judge=_removed_listed,
    ),
)
