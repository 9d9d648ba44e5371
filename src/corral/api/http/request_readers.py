"""Reads the bodies of create, adopt, action, key and budget requests, and checks the address of a webhook."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from corral.domain.budgets.budget import Budget
from corral.domain.errors import MalformedError, SpecInvalidError
from corral.domain.leases.changes import Extension
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.observation.adoption import Adoption
from corral.domain.requests.action import read_command_options
from corral.domain.requests.costs.budget import read_budget
from corral.domain.requests.create import CreateDefaults, RequestedInstance, read_adoption, read_create_request
from corral.domain.requests.fields import Problems
from corral.domain.requests.key import KeyRequest, read_key_request
from corral.domain.requests.labels import InstanceChange, read_instance_change
from corral.domain.requests.lease import LeaseChange, read_extension, read_last_used, read_lease_change
from corral.webhooks.guard import AddressGuard

T = TypeVar("T")


class RequestReader:
    """Turns bodies into domain records; the only I/O is the DNS lookup of a webhook's host."""

    def __init__(self, defaults: CreateDefaults, guard: AddressGuard) -> None:
        self._defaults = defaults
        self._guard = guard

    async def read(self, body: bytes, *, beside: Problems = ()) -> RequestedInstance:
        """
        The create request in *body*; raises MalformedError, or SpecInvalidError with every problem.

        *beside* are the problems of the request outside its body.
        """
        raw = decoded(body)
        found = read_create_request(raw, self._defaults)
        return await self._checked(raw, found, beside)

    async def read_terms(self, body: bytes, *, named: bool = False, beside: Problems = ()) -> CommandOptions:
        """The options in *body*, which may be empty unless *named*, which requires the name; raises as `read` does."""
        raw = decoded(body) if body or named else {}
        return await self._checked(raw, read_command_options(raw, self._defaults.health, named=named), beside)

    async def read_adoption(self, body: bytes, *, beside: Problems = ()) -> Adoption:
        """The adoption in *body*, which may be empty; raises as `read` does."""
        raw = decoded(body) if body.strip() else {}
        return await self._checked(raw, read_adoption(raw, self._defaults), beside)

    async def _checked(self, raw: Any, found: T | Problems, beside: Problems) -> T:
        url = raw.get("webhookUrl") if isinstance(raw, dict) else None
        problem = await self._guard.problem(url) if isinstance(url, str) else None
        if not isinstance(found, tuple) and problem is None and not beside:
            return found
        problems: Problems = found if isinstance(found, tuple) else ()
        raise SpecInvalidError([*beside, *problems, *([] if problem is None else [problem])])


def read_key(body: bytes, *, beside: Problems = ()) -> KeyRequest:
    """The API key to create in *body*; raises as `RequestReader.read` does."""
    return _checked(read_key_request(decoded(body)), beside)


def read_change(body: bytes, *, beside: Problems = ()) -> InstanceChange:
    """What to change of an instance in *body*; raises as `RequestReader.read` does."""
    return _checked(read_instance_change(decoded(body)), beside)


def read_budget_body(name: str, body: bytes, *, beside: Problems = ()) -> Budget:
    """The budget called *name* in *body*; raises as `RequestReader.read` does."""
    return _checked(read_budget(name, decoded(body)), beside)


def read_lease_merge(body: bytes, *, beside: Problems = ()) -> LeaseChange:
    """What to change of a lease in *body*; raises as `RequestReader.read` does."""
    return _checked(read_lease_change(decoded(body)), beside)


def read_extend(body: bytes, *, beside: Problems = ()) -> Extension:
    """The extension of a lease in *body*; raises as `RequestReader.read` does."""
    return _checked(read_extension(decoded(body)), beside)


def read_use(body: bytes, *, beside: Problems = ()) -> datetime | None:
    """When an instance was used, in *body*, which may be empty: None; raises as `RequestReader.read` does."""
    return _checked(read_last_used(decoded(body) if body.strip() else {}), beside)


def _checked(found: T | Problems, beside: Problems) -> T:
    if isinstance(found, tuple) or beside:
        raise SpecInvalidError([*beside, *(found if isinstance(found, tuple) else ())])
    return found


def decoded(body: bytes) -> Any:
    """The JSON value in *body*; raises MalformedError when it is not JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedError(f"the body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise MalformedError("the body is nested too deeply") from error
