"""Reading what a caller wants created: the body, its fields, and where its webhooks would go."""

from __future__ import annotations

from typing import Any

import msgspec

from corral.domain.adoption import Adoption
from corral.domain.errors import FieldProblem, MalformedError, SpecInvalidError
from corral.domain.health import HealthCheckSpec
from corral.domain.instance import Order
from corral.domain.order_rules import OrderDefaults, read_adoption, read_order
from corral.settings import Settings
from corral.webhooks.guard import AddressGuard


class OrderReader:
    """Turns bodies into orders; nobody outside is asked, except a name server about a webhook's host."""

    def __init__(self, defaults: OrderDefaults, guard: AddressGuard) -> None:
        self._defaults = defaults
        self._guard = guard

    async def read(self, body: bytes) -> Order:
        """The order in *body*; raises MalformedError, or SpecInvalidError with all that is wrong."""
        raw = decoded(body)
        found = read_order(raw, self._defaults)
        problems = await self._webhook_problems(raw)
        if isinstance(found, Order) and not problems:
            return found
        raise SpecInvalidError([*(() if isinstance(found, Order) else found), *problems])

    async def read_adoption(self, body: bytes) -> Adoption:
        """What *body*, which may be empty, says with an adoption; raises as `read` does."""
        raw = decoded(body) if body.strip() else {}
        found = read_adoption(raw, self._defaults)
        problems = await self._webhook_problems(raw)
        if isinstance(found, Adoption) and not problems:
            return found
        raise SpecInvalidError([*(() if isinstance(found, Adoption) else found), *problems])

    async def _webhook_problems(self, raw: Any) -> list[FieldProblem]:
        url = raw.get("webhookUrl") if isinstance(raw, dict) else None
        problem = await self._guard.problem(url) if isinstance(url, str) else None
        return [] if problem is None else [problem]


def order_defaults(settings: Settings) -> OrderDefaults:
    """What the settings say where an order says nothing."""
    chosen, checks = settings.instances, settings.health_checks
    health = HealthCheckSpec(
        timeout_ms=checks.timeout_ms,
        retry_attempts=checks.retry_attempts,
        retry_delay_ms=checks.retry_delay_ms,
        max_wait_ms=checks.max_wait_ms,
    )
    return OrderDefaults(region=chosen.default_region, regions=chosen.regions, health=health)


def decoded(body: bytes) -> Any:
    """The JSON in *body*; raises MalformedError when it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedError(f"the body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise MalformedError("the body is nested too deeply") from error
