"""What Corral assumes about the list of instances: pages, total, order, filters, fields."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from corral.domain.verification.evidence import AccountProbe, DiffersError, Evidence, NotSeenError
from corral.domain.verification.json_values import Kind, number, objects, text, word, wrong_fields
from corral.domain.verification.judge import Check

PAGE_SIZE: Final = 100
"""What Corral asks for."""
_FIELDS: Final[Mapping[str, Kind]] = {
    "id": Kind.TEXT,
    "name": Kind.TEXT,
    "status": Kind.TEXT,
    "clusterId": Kind.TEXT,
    "imageUrl": Kind.TEXT,
    "cpuNum": Kind.NUMERIC,
    "memory": Kind.NUMERIC,
    "gpuNum": Kind.NUMERIC,
    "rootfsSize": Kind.NUMERIC,
    "productId": Kind.TEXT,
    "productName": Kind.TEXT,
    "billingMode": Kind.TEXT,
    "portMappings": Kind.ARRAY,
    "statusError": Kind.OBJECT,
    "envs": Kind.ARRAY,
}
_TIMES: Final = ("createdAt", "lastStartedAt", "lastStoppedAt")
_YEAR_2020, _YEAR_2100 = 1_577_836_800, 4_102_444_800
KNOWN_STATUSES: Final = frozenset({
    "pending", "toCreate", "creating", "pulling", "running", "toStart", "starting", "toStop", "stopping", "exited",
    "toRestart", "restarting", "toRemove", "removing", "removed", "toReset", "resetting", "migrating", "freezing",
})  # fmt: skip
"""Those that the provider documents, and `pending`, which clients have seen."""


def _fields(seen: Evidence) -> str:
    found = seen.some(AccountProbe.LIST, "instances")
    wrong = wrong_fields(found, _FIELDS)
    if wrong:
        raise DiffersError("; ".join(wrong))
    return f"{len(_FIELDS)} fields of {len(found)} instances"


def _total(seen: Evidence) -> str:
    found = seen.items(AccountProbe.LIST, "instances")
    total = _number_of_instances(seen)
    if len(found) > total or (total <= PAGE_SIZE and len({text(item.get("id")) for item in found}) != total):
        raise DiffersError(f"`total` is {total}, and the page has {len(found)}")
    return f"{total} instances, {len(found)} on the first page"


def _page_size(seen: Evidence) -> str:
    found, total = len(seen.items(AccountProbe.LIST, "instances")), _number_of_instances(seen)
    if total < 2:  # noqa: PLR2004  # one is on any page
        raise NotSeenError("the account has fewer than two instances")
    if found < min(total, PAGE_SIZE):
        raise DiffersError(f"a page of {PAGE_SIZE} has {found} of {total} instances")
    return f"a page of {PAGE_SIZE} has {found} of {total} instances"


def _page_base(seen: Evidence) -> str:
    seen.some(AccountProbe.LIST, "instances")
    return first_page(seen, AccountProbe.LIST_PAGE_0, AccountProbe.LIST_PAGE_1, key="instances", id_name="id")


def first_page(seen: Evidence, page_0: AccountProbe, page_1: AccountProbe, *, key: str, id_name: str) -> str:
    """Which page of one item is the first: holds if that is page 0."""
    zero, one = seen.answer(page_0), seen.items(page_1, key)
    if not zero.is_success:
        raise DiffersError(f"page 0: {zero.problem}")
    first = seen.items(page_0, key)
    if not first and not one:
        raise NotSeenError("the list was empty")
    if not first:
        raise DiffersError("page 0 is empty and page 1 is the first")
    if [item.get(id_name) for item in first] == [item.get(id_name) for item in one]:
        raise DiffersError("pages 0 and 1 are the same: page 1 is the first")
    return "pages 0 and 1 are different"


def _order(seen: Evidence) -> str:
    times = [number(item.get("createdAt")) for item in seen.some(AccountProbe.LIST, "instances")]
    known = [at for at in times if at is not None]
    if len(known) < 2 or known[0] == known[-1]:  # noqa: PLR2004  # one has no order
        raise NotSeenError("there are no two instances with different times of creation")
    if any(earlier < later for earlier, later in pairwise(known)):
        raise DiffersError("the first instance is not the newest")
    return f"{len(known)} instances, the newest first"


def _by_name(seen: Evidence) -> str:
    name = seen.answer(AccountProbe.BY_NAME).asked.get("name")
    if not any(item.get("name") == name for item in seen.items(AccountProbe.BY_NAME, "instances")):
        raise DiffersError("an instance was not found by its name")
    return "an instance was found by its name"


def _by_name_start(seen: Evidence) -> str:
    _by_name(seen)  # a filter that finds nothing at all is the other check's
    start = seen.answer(AccountProbe.BY_NAME_START).asked.get("name", "")
    if not any(
        text(item.get("name")).startswith(start) for item in seen.items(AccountProbe.BY_NAME_START, "instances")
    ):
        raise DiffersError("an instance was not found by the start of its name")
    return "an instance was found by the start of its name"


def _by_no_name(seen: Evidence) -> str:
    if not seen.items(AccountProbe.LIST, "instances"):
        raise NotSeenError("the account has no instance that a wrong filter could show")
    found = len(seen.items(AccountProbe.BY_NO_NAME, "instances"))
    if found:
        raise DiffersError(f"a name that no instance has gave {found} instances")
    return "a name that no instance has gave none"


def _by_status(seen: Evidence) -> str:
    asked = seen.answer(AccountProbe.BY_STATUS).asked.get("status")
    found = [item.get("status") for item in seen.items(AccountProbe.BY_STATUS, "instances")]
    if not found:
        raise DiffersError("no instance was found by the status that one has")
    if any(status != asked for status in found):
        raise DiffersError("instances with another status were given")
    return f"{len(found)} instances with the status {word(asked)}"


def _statuses(seen: Evidence) -> str:
    found = [item.get("status") for item in seen.items(AccountProbe.LIST, "instances")]
    found += [look.status for look in (seen.trial.looks if seen.trial else ()) if look.status]
    if not found:
        raise NotSeenError("the account has no instance")
    unknown = sorted({word(status) for status in found if text(status) not in KNOWN_STATUSES})
    if unknown:
        raise DiffersError(f"not known: {', '.join(unknown)}")
    return ", ".join(sorted({word(status) for status in found}))


def _times(seen: Evidence) -> str:
    found = seen.some(AccountProbe.LIST, "instances")
    for name in _TIMES:
        for item in found:
            if name not in item:
                raise DiffersError(f"`{name}` is missing")
            at = number(item[name])
            if at is None or (at != 0 and not _YEAR_2020 <= at < _YEAR_2100):
                raise DiffersError(f"`{name}` is not in unix seconds")
    return f"{', '.join(_TIMES)} in unix seconds"


def _endpoints(seen: Evidence) -> str:
    ports = [port for item in _running(seen) for port in objects(item.get("portMappings"))]
    if not ports:
        raise NotSeenError("no running instance has a port")
    if not all(text(port.get("endpoint")) for port in ports):
        raise DiffersError("ports of running instances have no `endpoint`")
    return f"{len(ports)} ports of running instances have an `endpoint`"


def _agrees(seen: Evidence) -> str:
    got = seen.answers.get(AccountProbe.INSTANCE)
    if got is None:
        raise NotSeenError("the account has no instance")
    wanted = got.asked.get("instanceId")
    listed = next((item for item in seen.items(AccountProbe.LIST, "instances") if item.get("id") == wanted), None)
    if listed is None:
        raise DiffersError("the list lacks an instance that exists")
    found = seen.instance()
    different = [name for name in ("id", "name", "clusterId") if found.get(name) != listed.get(name)]
    if different:
        raise DiffersError(f"list and lookup differ in {', '.join(different)}")
    return "the lookup of a listed instance shows the same"


def _running(seen: Evidence) -> list[Mapping[str, object]]:
    return [item for item in seen.some(AccountProbe.LIST, "instances") if item.get("status") == "running"]


def _number_of_instances(seen: Evidence) -> int:
    total = number(seen.content(AccountProbe.LIST).get("total"))
    if total is None:
        raise DiffersError("there is no number `total`")
    return int(total)


CHECKS: Final = (
    Check(
        id="list.fields",
        assumes="an instance in the list has the documented fields; numbers may be text",
        otherwise="what cannot be read counts as absent; without `id`, `name` or `status` nothing can be observed",
        copes=False,
        judge=_fields,
    ),
    Check(
        id="list.agrees",
        assumes="the list and the lookup by id show the same instances",
        otherwise="an instance that the list lacks is looked up by its id; a listing that lacks one proves nothing",
        judge=_agrees,
    ),
    Check(
        id="list.total",
        assumes="`total` is the number of all instances",
        otherwise="with a wrong one, or several pages without one, no listing shows that a machine is missing",
        copes=False,
        judge=_total,
    ),
    Check(
        id="list.page_base",
        assumes="the first page of the list is page 0",
        otherwise="pages 0 and 1 are compared, and the pages are counted from 1",
        judge=_page_base,
    ),
    Check(
        id="list.page_size",
        assumes="a page may have 100 instances",
        otherwise="the size that is given is asked for; a listing takes more calls",
        judge=_page_size,
    ),
    Check(
        id="list.order",
        assumes="the list begins with the newest instance",
        otherwise="both ends of the list are read twice; a long listing takes two calls more",
        judge=_order,
    ),
    Check(
        id="list.name_filter",
        assumes="the list's `name` parameter finds an instance by its whole name",
        otherwise="the filter is not believed: a create with unknown outcome waits for complete listings",
        judge=_by_name,
    ),
    Check(
        id="list.name_filter_start",
        assumes="the same parameter finds an instance by the start of its name",
        otherwise="creates wait for a complete listing after a start of the service",
        judge=_by_name_start,
    ),
    Check(
        id="list.name_filter_narrows",
        assumes="the same parameter finds nothing by a name that no instance has",
        otherwise="names are compared again; in an account of more than 100 instances the filter proves nothing",
        judge=_by_no_name,
    ),
    Check(
        id="list.status_filter",
        assumes="the list's `status` parameter finds the instances of one status",
        otherwise="nothing: Corral reads all statuses and does not send it",
        judge=_by_status,
    ),
    Check(
        id="list.statuses",
        assumes="every status of an instance is a known word",
        otherwise="an unknown one counts as a machine in transition, and is logged (`cloud.word_unknown`)",
        copes=False,
        judge=_statuses,
    ),
    Check(
        id="list.times",
        assumes="the list has createdAt, lastStartedAt and lastStoppedAt in unix seconds",
        otherwise="the times of Corral's own observations are used; costs are known less exactly",
        judge=_times,
    ),
    Check(
        id="list.endpoints",
        assumes="the list shows the endpoints of a running instance",
        otherwise="each machine is looked up once more when it runs",
        judge=_endpoints,
    ),
)
