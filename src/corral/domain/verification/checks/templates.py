"""What Corral assumes about what the account has to create machines with: templates, registry logins, volumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from corral.domain.container import HIGHEST_PORT, MOST_ENVS, MOST_PORTS, RESERVED_PORTS
from corral.domain.verification.checks.listing import first_page
from corral.domain.verification.checks.products import fields_of
from corral.domain.verification.evidence import AccountProbe, DiffersError, Evidence, NotSeenError
from corral.domain.verification.json_values import Kind, array, kind_of, mapping, number, objects, word, wrong_fields
from corral.domain.verification.judge import Check

_TEMPLATE: Final[Mapping[str, Kind]] = {
    "Id": Kind.TEXT,
    "name": Kind.TEXT,
    "type": Kind.TEXT,
    "image": Kind.TEXT,
    "ports": Kind.ARRAY,
}
_WHOLE_TEMPLATE: Final[Mapping[str, Kind]] = {
    **_TEMPLATE,
    "imageAuth": Kind.TEXT,
    "startCommand": Kind.TEXT,
    "entrypoint": Kind.TEXT,
    "minCudaVersion": Kind.TEXT,
    "envs": Kind.ARRAY,
    "tools": Kind.ARRAY,
}
_AUTH: Final[Mapping[str, Kind]] = {"id": Kind.TEXT, "username": Kind.TEXT, "password": Kind.TEXT}
_VOLUME: Final[Mapping[str, Kind]] = {
    "storageId": Kind.TEXT,
    "storageName": Kind.TEXT,
    "storageSize": Kind.NUMERIC,
    "clusterId": Kind.TEXT,
    "clusterName": Kind.TEXT,
}


def _templates_page_base(seen: Evidence) -> str:
    return first_page(seen, AccountProbe.TEMPLATES_PAGE_0, AccountProbe.TEMPLATES_PAGE_1, key="template", id_name="Id")


def _template(seen: Evidence) -> str:
    found = seen.content(AccountProbe.TEMPLATE).get("template")
    if not isinstance(found, dict):
        raise DiffersError(f"`template` is {kind_of(found)}")
    wrong = wrong_fields([mapping(found)], _WHOLE_TEMPLATE)
    if wrong:
        raise DiffersError("; ".join(wrong))
    return f"{len(_WHOLE_TEMPLATE)} fields"


def _template_limits(seen: Evidence) -> str:
    found = seen.some(AccountProbe.TEMPLATES, "template")
    for item in found:
        groups = objects(item.get("ports"))
        unknown = sorted({word(group.get("type")) for group in groups} - {"`http`", "`tcp`"})
        if unknown:
            raise DiffersError(f"ports of the type {', '.join(unknown)}")
        ports = [number(port) for group in groups for port in array(group.get("ports"))]
        if any(port is None or not 1 <= port <= HIGHEST_PORT or port in RESERVED_PORTS for port in ports):
            raise DiffersError("a port that instances cannot have")
        if len(ports) > MOST_PORTS or len(array(item.get("envs"))) > MOST_ENVS:
            raise DiffersError(f"more than {MOST_PORTS} ports, or more than {MOST_ENVS} variables")
    return f"{len(found)} templates within the limits of a create"


def _volumes_page_base(seen: Evidence) -> str:
    return first_page(seen, AccountProbe.VOLUMES_PAGE_0, AccountProbe.VOLUMES_PAGE_1, key="data", id_name="storageId")


def _volumes(seen: Evidence) -> str:
    found = [*seen.items(AccountProbe.VOLUMES_PAGE_0, "data"), *seen.items(AccountProbe.VOLUMES_PAGE_1, "data")]
    if not found:
        raise NotSeenError("the account has no volume")
    wrong = wrong_fields(found, _VOLUME)
    if wrong:
        raise DiffersError("; ".join(wrong))
    return f"{len(_VOLUME)} fields"


CHECKS: Final = (
    Check(
        id="templates.fields",
        assumes="the list of templates is the array `template`, and each has `Id`, name, type, image and ports",
        otherwise="templates without an `Id` are not listed; a request can still name any by its id",
        copes=False,
        judge=lambda seen: fields_of(seen, AccountProbe.TEMPLATES, "template", _TEMPLATE),
    ),
    Check(
        id="templates.page_base",
        assumes="the first page of templates is page 0",
        otherwise="pages 0 and 1 are compared, and the pages are counted from 1",
        judge=_templates_page_base,
    ),
    Check(
        id="templates.one",
        assumes="a single template is in `template`, with image, ports by type, variables, tools and commands",
        otherwise="a part that is missing is not sent with a create; one without an image is refused",
        copes=False,
        judge=_template,
    ),
    Check(
        id="templates.limits",
        assumes="templates keep to the limits of a create: 15 ports, none of 2222 to 2224, 100 variables",
        otherwise="a create from such a template is refused with what is wrong",
        judge=_template_limits,
    ),
    Check(
        id="registry.fields",
        assumes="a registry login has id, user name and password",
        otherwise="a private image is pulled by the id of its login alone",
        judge=lambda seen: fields_of(seen, AccountProbe.AUTHS, "data", _AUTH),
    ),
    Check(
        id="volumes.fields",
        assumes="a network volume has an id, a name, a size and its cluster",
        otherwise="one without an id or a cluster is not shown and cannot be mounted",
        copes=False,
        judge=_volumes,
    ),
    Check(
        id="volumes.page_base",
        assumes="the first page of network volumes is page 0",
        otherwise="pages 0 and 1 are compared, and the pages are counted from 1",
        judge=_volumes_page_base,
    ),
)
