"""The route that reads the audit log."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Meta

from corral.api.http.bodies import filled
from corral.api.http.parameters import PRINTABLE
from corral.api.middleware.auth import ADMIN
from corral.api.routes.events import MOST_SEQ, After, InstanceFilter, Last, Limit
from corral.domain.access import Access
from corral.domain.audit import AuditLine
from corral.engine.auth.audit_log import AuditLog


class AuditLineDetails(msgspec.Struct, rename="camel"):
    """One call that could change something, or that read logins."""

    number: int
    at: str
    who: Annotated[
        str, Meta(description="Name of the key or of the proxy's user; `local` for none on loopback, else `unknown`.")
    ]
    key_id: str | None
    role: Annotated[Access | None, Meta(description="The caller's, at that time.")]
    method: Annotated[str, Meta(description="`CLI` for keys, imports and rebuilds on the command line.")]
    route: Annotated[str | None, Meta(description="Null when it led nowhere.")]
    path: str
    instance_id: str | None
    address: Annotated[str, Meta(description="The other end of the connection; behind a proxy, the proxy.")]
    status: Annotated[int, Meta(description="As answered.")]
    error_code: str | None
    request_id: str


class AuditPage(msgspec.Struct, rename="camel"):
    """Some lines, oldest first."""

    entries: list[AuditLineDetails]
    next_after: Annotated[int, Meta(description="What to pass as `after` for the next page.")]
    limit: int


def handlers(trail: AuditLog) -> list[HTTPRouteHandler]:
    """The route of `/api/audit`."""

    @get("/api/audit", summary="List the audit log", tags=["audit"], opt=ADMIN)
    async def list_audit(  # noqa: PLR0917  # Litestar calls it by name
        after: After = 0,
        before: Annotated[
            int | None, QueryParameter(ge=1, le=MOST_SEQ, description="Only lines with a smaller number.")
        ] = None,
        limit: Limit = 100,
        last: Last = None,
        instance_id: InstanceFilter = None,
        who: Annotated[
            str | None, QueryParameter(max_length=100, pattern=PRINTABLE, description="Name or id of a key.")
        ] = None,
    ) -> AuditPage:
        """
        Every POST, PUT, PATCH and DELETE, and every read of logins, of `CORRAL_EVENT_RETENTION` days.

        Refused calls are listed too; bodies are not.

        `last` gives the newest lines; with the number of the first of them as `before` it gives those that precede.
        """
        limit, newest = last or limit, last is not None
        found = await trail.page(
            limit=limit, after=after, before=before, newest=newest, instance_id=instance_id, who=who
        )
        next_after = found[-1].number if found else after
        return AuditPage(entries=[_details(line) for line in found], next_after=next_after, limit=limit)

    return [list_audit]


def _details(line: AuditLine) -> AuditLineDetails:
    key_id, role = (None, None) if line.caller is None else (line.caller.key_id, line.caller.access)
    return filled(AuditLineDetails, line, key_id=key_id, role=role)
