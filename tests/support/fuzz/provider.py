"""
What the provider answers, through the whole client but for the socket.

The first line of an input names the call and says its status and `Retry-After`; the rest is the body.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from yarl import URL

from corral.cloud.exchange import Answer, Call, FaultError
from corral.cloud.novita import faults, http
from corral.cloud.novita.billing.translate import MICRO_USD_PER_UNIT, MOST_AMOUNT
from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.paging import MOST_PAGES
from corral.cloud.novita.translate import MOST_LABEL_LENGTH, MOST_PARTS
from corral.cloud.novita.values import MOST_ID_LENGTH
from corral.cloud.port import Credentials, Listing, ProviderCreate
from corral.domain.costs.bill import BillCategory, BillRows
from corral.domain.errors import CloudError
from corral.domain.observation.provider_names import parse_provider_name, provider_name
from corral.domain.observation.sighting import ProviderInstance
from corral.domain.placement.catalog import (
    BillingMode,
    EnvironmentVariable,
    PortKind,
    Template,
    TemplateChannel,
    TemplatePort,
    TemplateTool,
)
from corral.health.probe import http_url, tcp_place
from support.clock.clocks import SteppedClock
from support.fuzz.laws import hidden, is_reported_well, keeps
from support.fuzz.target import headed, status_in

MOST_CALLS: Final = MOST_PAGES + 4
"""Whatever total a provider claims: every page, both ends once more, and where the pages begin."""
_RUNNER: Final = asyncio.Runner()
_NOW: Final = SteppedClock().now()
_DAY: Final = datetime(2026, 10, 1, tzinfo=UTC)
_OUR_WORDS: Final = re.compile(r"HTTP [1-9]\d\d( [A-Z][A-Z0-9_]{0,63}| with(out)? [a-zA-Z0-9 ()]+)?")
REQUEST: Final = ProviderCreate(
    name="corral-a1b2c3-inst-1-1",
    product_id="4090.16c62g",
    cluster_id="us-ca-6",
    gpu_num=1,
    rootfs_gb=60,
    billing_mode=BillingMode.ON_DEMAND,
    template=Template(
        id="204511",
        name="acme-app",
        image="docker.io/acme/app:1.2",
        image_auth_id="auth-1",
        ports=(TemplatePort(port=8080, kind=PortKind.HTTP),),
        envs=(EnvironmentVariable(key="TOKEN", value="do-not-tell"),),
        tools=(TemplateTool(name="Jupyter", port=8888, kind=PortKind.HTTP),),
        start_command="",
        entrypoint="",
        min_cuda_version="12.4",
    ),
)
CALLS: Final[Mapping[str, Callable[[NovitaCloud], Awaitable[object]]]] = {
    "instances": lambda cloud: cloud.instances(),
    "instance": lambda cloud: cloud.instance("ID"),
    "create": lambda cloud: cloud.create(REQUEST),
    "stop": lambda cloud: cloud.stop("ID"),
    "delete": lambda cloud: cloud.delete("ID"),
    "products": lambda cloud: cloud.products(cluster_id=None, billing_mode=BillingMode.SPOT),
    "clusters": lambda cloud: cloud.clusters(),
    "template": lambda cloud: cloud.template("107672"),
    "templates": lambda cloud: cloud.templates(TemplateChannel.OFFICIAL),
    "volumes": lambda cloud: cloud.volumes(),
    "auths": lambda cloud: cloud.registry_credentials("3f0c9d0e"),
    "bills": lambda cloud: cloud.bill_rows(BillCategory.GPU, since=_DAY, until=_DAY + timedelta(days=1)),
    "balance": lambda cloud: cloud.balance(),
}


class ScriptedReply:
    """An exchange in which the provider always says the same."""

    def __init__(self, status: int, retry_after: str | None, body: bytes) -> None:
        self._status, self._retry_after, self._body = status, retry_after, body
        self.calls = 0

    @property
    def provider_time(self) -> datetime | None:
        return None

    async def ask(self, call: Call, answer: type[Answer]) -> Answer:
        """As the exchange over HTTP does, once the bytes are there."""
        self.calls += 1
        assert self.calls <= MOST_CALLS, f"{call.endpoint} was asked too often"
        if 200 <= self._status < 300:
            return http._read(self._status, self._body[: call.most_bytes], answer)
        fault = faults.refusal(self._status, self._body, retry_after=self._retry_after, now=_NOW)
        _judge_fault(fault)
        raise fault


def read_answer(data: bytes) -> None:
    """One answer to one call: what can be kept comes out, or one of our errors without a secret."""
    (word, *more), body = headed(data, "instances")
    reported = ScriptedReply(status_in(more[0] if more else ""), " ".join(more[1:]) or None, body)
    cloud = NovitaCloud(reported)
    try:
        found = _RUNNER.run(_asked(CALLS.get(word, CALLS["instances"]), cloud))
    except CloudError as error:
        is_reported_well(error, _secrets(body))
        return
    for each in _each(found):
        if not isinstance(each, Credentials):  # which are sent on once and kept nowhere
            keeps(each)
        if isinstance(each, ProviderInstance):
            _judge_instance(each)
        if isinstance(each, BillRows):
            _judge_bill(each)


async def _asked(ask: Callable[[NovitaCloud], Awaitable[object]], cloud: NovitaCloud) -> object:
    return await ask(cloud)


def _each(found: object) -> list[Any]:
    if isinstance(found, Listing):
        return list(found.instances)
    return list(found) if isinstance(found, tuple) else [] if found is None else [found]


def _judge_fault(fault: FaultError) -> None:
    """Nothing the provider wrote gets into the text, except a reason from its own list."""
    assert _OUR_WORDS.fullmatch(fault.because), fault.because
    pause = fault.retry_after_seconds
    assert pause is None or 0 <= pause <= faults.MOST_RETRY_AFTER_SECONDS


def _judge_instance(seen: ProviderInstance) -> None:
    """What is kept for each instance is bounded and can be read later."""
    assert 0 < len(seen.id) <= MOST_ID_LENGTH
    assert max(len(seen.endpoints), len(seen.env_names), len(seen.volume_mounts)) <= MOST_PARTS
    texts = [
        seen.name,
        seen.provider_status,
        seen.image,
        seen.region,
        *seen.env_names,
        *(e.address for e in seen.endpoints),
    ]
    assert all(len(text or "") <= MOST_LABEL_LENGTH for text in texts)
    mark = parse_provider_name(seen.name)
    assert mark is None or provider_name(mark) == seen.name
    for endpoint in seen.endpoints:
        with suppress(ValueError):  # as they say of an address that is none
            tcp_place(endpoint)
            URL(http_url(endpoint, "/health?deep=1"))


def _judge_bill(bill: BillRows) -> None:
    """What is added up is of the asked day and bounded, and its error is at most what rounding makes."""
    for row in bill.rows:
        assert _DAY <= row.started_at < _DAY + timedelta(days=1)
        assert abs(row.micro_usd) <= int(MOST_AMOUNT + 1) * MICRO_USD_PER_UNIT
        assert 0 <= row.slack_micro_usd <= MICRO_USD_PER_UNIT
        assert len(row.owner_id) <= MOST_ID_LENGTH


def _secrets(body: bytes) -> list[str]:
    """Values of variables and passwords, read from the body independently."""
    try:
        return hidden(json.loads(body), "value", "password", "readme")
    except (ValueError, RecursionError):
        return []
