"""What Corral assumes about creating a machine: seen on the trial machine of `corral verify --spend`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from corral.domain.verification.evidence import (
    MOST_SKEW,
    DiffersError,
    Evidence,
    Look,
    NotSeenError,
    ProviderAnswer,
    Stage,
)
from corral.domain.verification.json_values import mapping, number, objects, text, word
from corral.domain.verification.judge import Check

_BOOT_ORDER: Final = ("toCreate", "creating", "pulling", "running")
_UNKNOWN_PRODUCT: Final = "VALIDATOR_PARAM"


def _refusal(seen: Evidence) -> str:
    _answered_refusal(seen)
    if seen.tried().left_by_refusal:
        raise DiffersError("a create was refused, and its machine exists")
    return "a create was refused, and no machine has its name"


def _unknown_product(seen: Evidence) -> str:
    answer = _answered_refusal(seen)
    if mapping(answer.content).get("reason") != _UNKNOWN_PRODUCT:
        raise DiffersError(answer.problem)
    return answer.problem


def _answered_refusal(seen: Evidence) -> ProviderAnswer:
    found = seen.tried().refused
    if found is None or found.status is None or found.status >= 500:  # noqa: PLR2004  # no refusal
        raise NotSeenError("no create was refused")
    if found.is_success:
        raise DiffersError("a create of a product that does not exist was accepted")
    return found


def _answer(seen: Evidence) -> str:
    created = seen.tried().created
    if created is None or created.status is None:
        raise NotSeenError("the create was not answered")
    if not created.is_success:
        raise NotSeenError(f"the create was refused: {created.problem}")
    if not text(mapping(created.content).get("id")):
        raise DiffersError("the answer to the create has no id")
    return "an id"


def _listed(seen: Evidence) -> str:
    looks = seen.looks(Stage.BOOT)
    first = next((look.seconds for look in looks if look.listed is not None), None)
    settle = seen.expected.settle.total_seconds()
    if first is None and looks[-1].seconds < settle:
        raise NotSeenError("the trial ended before the settle time")
    if first is None or first > settle:
        after = f"not within {looks[-1].seconds:.0f} s" if first is None else f"after {first:.0f} s"
        raise DiffersError(f"listed {after}")
    return f"listed after {first:.0f} s"


def _found(seen: Evidence) -> str:
    looks = seen.looks(Stage.BOOT)
    first = next((look.seconds for look in looks if look.got.is_success), None)
    if first is None:
        raise DiffersError("the lookup by its id did not find it")
    if first > looks[0].seconds:
        raise DiffersError(f"the lookup by its id found it after {first:.0f} s")
    return "the lookup by its id found it at once"


def _named(seen: Evidence) -> str:
    trial = seen.tried()
    shown = [look.listed.get("name") for look in trial.looks if look.listed is not None]
    shown += [mapping(look.got.content).get("name") for look in trial.looks if look.got.is_success]
    if not shown:
        raise NotSeenError("the machine was not seen")
    if any(name != trial.name for name in shown):
        raise DiffersError("the machine has another name than it was given")
    return f"the same in {len(shown)} answers"


def _prompt(seen: Evidence) -> str:
    trial = seen.tried()
    if trial.created is None:
        raise NotSeenError("no machine was created")
    items = [look.listed for look in trial.looks if look.listed is not None]
    items += [mapping(look.got.content) for look in trial.looks if look.got.is_success]
    times = [at for item in items if (at := number(item.get("createdAt"))) and 0 < at < _FAR]
    if not times:
        raise NotSeenError("the machine has no createdAt")
    made_at = datetime.fromtimestamp(max(times), UTC)
    late = (made_at - trial.created.received_at).total_seconds()
    if made_at < trial.sent_at - MOST_SKEW or made_at > trial.created.received_at + MOST_SKEW:
        raise DiffersError(f"created {late:.0f} s after the create was answered")
    return "created while the call was open"


def _boot_time(seen: Evidence) -> str:
    looks = seen.looks(Stage.BOOT)
    first = next((look.seconds for look in looks if look.status == "running"), None)
    if first is None:
        raise DiffersError(f"not running after {looks[-1].seconds:.0f} s; last seen {word(looks[-1].status)}")
    return f"running after {first:.0f} s"


def _boot_statuses(seen: Evidence) -> str:
    order = [look.status for look in seen.looks(Stage.BOOT) if look.status]
    distinct = list(dict.fromkeys(order))
    if not distinct:
        raise NotSeenError("the machine was not seen")
    shown = ", ".join(map(word, distinct))
    places = [_BOOT_ORDER.index(status) if status in _BOOT_ORDER else -1 for status in order]
    if -1 in places or places != sorted(places):
        raise DiffersError(shown)
    return shown


def _billing_mode(seen: Evidence) -> str:
    shown = {text(mapping(look.got.content).get("billingMode")) for look in _found_looks(seen)}
    if "" in shown:
        raise DiffersError("`billingMode` is empty at first")
    if shown != {"onDemand"}:
        raise DiffersError(f"`billingMode` is {', '.join(sorted(map(word, shown)))}")
    return "`billingMode` is `onDemand` from the first lookup on"


def _early_endpoints(seen: Evidence) -> str:
    early = [look for look in _found_looks(seen) if look.status != "running"]
    ports = [port for look in early for port in objects(mapping(look.got.content).get("portMappings"))]
    if not ports:
        raise NotSeenError("no port was seen before the machine ran")
    if any(text(port.get("endpoint")) for port in ports):
        raise DiffersError("ports have an `endpoint` before the machine runs")
    return "ports have no `endpoint` until the machine runs"


def _early_logs(seen: Evidence) -> str:
    early = [look for look in _found_looks(seen) if look.status != "running"]
    if not early:
        raise NotSeenError("the machine was not seen before it ran")
    if not any(
        text(mapping(mapping(look.got.content).get("connectComponentLog")).get("systemLogAddress")) for look in early
    ):
        raise DiffersError("the address of the system log is missing until the machine runs")
    return "the address of the system log is there before the machine runs"


def _found_looks(seen: Evidence) -> list[Look]:
    found = [look for look in seen.looks(Stage.BOOT) if look.got.is_success]
    if not found:
        raise NotSeenError("the machine was not seen")
    return found


def _by_name(seen: Evidence) -> str:
    tried = [look for look in seen.looks(Stage.BOOT) if look.by_name is not None]
    first = next((look.seconds for look in tried if look.by_name), None)
    if not tried:
        raise NotSeenError("the name filter was not tried")
    if first is None or first > seen.expected.settle.total_seconds():
        raise DiffersError("the name filter did not find the new machine within the settle time")
    return f"the name filter found it after {first:.0f} s"


_FAR: Final = 4_102_444_800.0

CHECKS: Final = (
    Check(
        id="create.refusal",
        assumes="a refused create creates no machine",
        otherwise="the next offer is taken at once; the first machine is reported as an orphan, and billed meanwhile",
        copes=False,
        setting="CORRAL_ORPHANS",
        judge=_refusal,
    ),
    Check(
        id="create.unknown_product",
        assumes="a product that does not exist is refused with VALIDATOR_PARAM",
        otherwise="any reason that is documented as a refusal is read as one",
        judge=_unknown_product,
    ),
    Check(
        id="create.answer",
        assumes="a create is answered with the id of the machine",
        otherwise="the outcome is unknown: the machine is searched for by its name",
        judge=_answer,
    ),
    Check(
        id="create.listed",
        assumes="a created machine is in the list within the settle time of 60 s",
        otherwise="a create with unknown outcome may be repeated, and two machines be billed for an hour",
        copes=False,
        judge=_listed,
    ),
    Check(
        id="create.found_by_name",
        assumes="a created machine is found by the list's name filter within the settle time",
        otherwise="the filter is not believed: creates with unknown outcome wait for complete listings",
        judge=_by_name,
    ),
    Check(
        id="create.prompt",
        assumes="a create is carried out while its call is open, at most a minute later",
        otherwise="a create that was given up may be carried out after another was sent, and two machines be billed",
        copes=False,
        judge=_prompt,
    ),
    Check(
        id="create.name",
        assumes="a machine keeps the name that it was created with",
        otherwise="a create whose response was lost cannot be found, and is repeated",
        copes=False,
        judge=_named,
    ),
    Check(
        id="create.lookup",
        assumes="a created machine is found by its id at once",
        otherwise="a machine that was never seen is not taken for gone: Corral waits for a listing",
        judge=_found,
    ),
    Check(
        id="boot.time",
        assumes="a machine with a small image runs within five minutes",
        otherwise="Corral waits 20 minutes for a create",
        judge=_boot_time,
    ),
    Check(
        id="boot.statuses",
        assumes="a new machine is toCreate, creating, pulling and then running",
        otherwise="any known status on the way up counts as booting, in any order",
        judge=_boot_statuses,
    ),
    Check(
        id="boot.billing_mode",
        assumes="`billingMode` is shown from the first lookup on",
        otherwise="the mode that was asked for counts until the provider shows one",
        judge=_billing_mode,
    ),
    Check(
        id="boot.endpoints",
        assumes="a port has no endpoint before the machine runs",
        otherwise="endpoints are read again when the machine runs; earlier ones are not used",
        judge=_early_endpoints,
    ),
    Check(
        id="boot.logs",
        assumes="the logs have addresses before the machine runs",
        otherwise="the progress of an image pull is not shown",
        judge=_early_logs,
    ),
)
