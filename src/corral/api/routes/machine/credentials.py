"""The route that reads the logins of a machine."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import FromPath
from msgspec import Meta

from corral.api.http.bodies import JsonResponse
from corral.api.http.context import context_of
from corral.api.middleware.auth import OPERATOR
from corral.domain.machine.access import MachineCredentials
from corral.engine.auth.audit_log import AuditLog
from corral.engine.machine.credentials import CredentialQueries

NO_STORE: Final = ((b"cache-control", b"no-store"),)


class SshLogin(msgspec.Struct, rename="camel"):
    """A login by ssh; host, port and user are safe as arguments of ssh."""

    command: str
    user: str
    host: str
    port: int
    password: Annotated[str | None, Meta(description="Null when the provider gives none.")]


class WebTerminalLogin(msgspec.Struct, rename="camel"):
    """A terminal in the browser."""

    address: str
    username: Annotated[str | None, Meta(description="Null when the provider gives none.")]
    password: Annotated[str | None, Meta(description="Null when the provider gives none.")]


class JupyterLogin(msgspec.Struct, rename="camel"):
    """The machine's Jupyter."""

    address: str


class CredentialDetails(msgspec.Struct, rename="camel"):
    """Every login that the machine offers now."""

    ssh: Annotated[SshLogin | None, Meta(description="Null when the machine offers none.")]
    web_terminal: Annotated[WebTerminalLogin | None, Meta(description="Null when the machine offers none.")]
    jupyter: Annotated[JupyterLogin | None, Meta(description="Null when the machine offers none.")]


def handlers(logins: CredentialQueries, audit: AuditLog) -> list[HTTPRouteHandler]:
    """The route of `/api/instances/{id}/credentials`."""

    @get(
        "/api/instances/{instance_id:str}/credentials",
        summary="Get the logins of an instance",
        tags=["machines"],
        opt=OPERATOR,
        responses={200: ResponseSpec(data_container=CredentialDetails, description="Read from the provider now.")},
    )
    async def get_credentials(request: Request[Any, Any, Any], instance_id: FromPath[str]) -> JsonResponse:
        """
        Passwords for ssh and the web terminal, and the addresses of both and of Jupyter.

        Read from the provider for this request, and neither stored nor logged. Every call is in the audit log; while
        that cannot be written, no login is returned. A stopped machine offers none: 409.
        """
        found_id, found = await logins.read(instance_id)
        context = context_of(request.scope)
        line = context.audit_entry(at=context.clock.now(), status=HTTPStatus.OK, instance_id=found_id)
        await audit.require(line)
        context.is_audited = True
        return JsonResponse(status=HTTPStatus.OK, body=msgspec.json.encode(_details(found)), headers=NO_STORE)

    return [get_credentials]


def _details(found: MachineCredentials) -> CredentialDetails:
    ssh, terminal, jupyter = found.ssh, found.web_terminal_address, found.jupyter_address
    return CredentialDetails(
        ssh=None
        if ssh is None
        else SshLogin(command=ssh.command, user=ssh.user, host=ssh.host, port=ssh.port, password=found.ssh_password),
        web_terminal=None
        if terminal is None
        else WebTerminalLogin(
            address=terminal, username=found.web_terminal_username, password=found.web_terminal_password
        ),
        jupyter=None if jupyter is None else JupyterLogin(address=jupyter),
    )
