"""What can be read about an instance: its record, logs, credentials and measurements."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Final
from urllib.parse import quote

from corral_client.errors import Ambiguous, NotFound
from corral_client.log_lines import lines_of
from corral_client.models.instances import GONE, Instance, InstancePage, Operation, OperationList
from corral_client.models.machines import Credentials, ImagePull, Metrics
from corral_client.models.orders import LogSource
from corral_client.transport import SILENCE_SECONDS, Query, Transport

FOLLOW_SECONDS: Final = 2000.0
"""The service ends a followed log after 30 minutes; without a byte for longer the connection is dead."""


class AsyncInstanceReads:
    """The part of `client.instances` that changes nothing."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, named: str) -> Instance:
        """
        One instance as it is now; raises NotFound, or Ambiguous when several live ones have that name.

        A name that only deleted instances had means the last of them.
        """
        if named.startswith("inst_"):
            try:
                return await self._by_id(named)
            except NotFound as missing:
                return _chosen(named, await self._by_name(named), missing)
        found = await self._by_name(named)
        if any(instance.status not in GONE for instance in found):
            return _chosen(named, found, None)
        try:
            return await self._by_id(named)
        except NotFound as missing:
            return _chosen(named, found, missing)

    async def list(
        self,
        *,
        status: str | None = None,
        name: str | None = None,
        region: str | None = None,
        owner: str | None = None,
        label: str | Sequence[str] | None = None,
        q: str | None = None,
        page_size: int = 100,
    ) -> AsyncGenerator[Instance]:
        """
        All instances that match, newest first, read page by page as they are consumed.

        *owner* is the name of the key that created it, or `local`. *label* is `key:value`, or `key` for any value; of
        several, each must hold. *q* is text in the name, id, region, product, labels or owner. A service of an earlier
        release ignores these three.

            >>> [instance.name async for instance in client.instances.list(status="ready", name="train")]
            ['train']
        """
        where = {"status": status, "name": name, "region": region, "owner": owner, "label": label, "q": q}
        start, seen = dict[str, str | int](), set[str]()
        while True:
            query: Query = {**where, "limit": page_size, **start}
            page = await self._transport.get(InstancePage, "/api/instances", query)
            new = [instance for instance in page.instances if instance.id not in seen]
            seen.update(instance.id for instance in new)
            for instance in new:
                yield instance
            if len(page.instances) < page_size:
                return
            if new and "offset" not in start:
                start = {"after": page.instances[-1].id}
            else:  # a service of an earlier release ignores `after`: it returned the first page again
                start = {"offset": int(start.get("offset", 0)) + page_size}

    async def count(self, *, status: str | None = None, name: str | None = None, region: str | None = None) -> int:
        """How many instances match, also those that are gone, without reading them."""
        query = {"status": status, "name": name, "region": region, "limit": 1}
        return (await self._transport.get(InstancePage, "/api/instances", query)).total

    async def operations(self, named: str) -> Sequence[Operation]:
        """What was asked of an instance, newest first."""
        found = await self.get(named)
        return (await self._transport.get(OperationList, f"{path_of(found.id)}/operations")).operations

    async def credentials(self, named: str) -> Credentials:
        """
        How to log in, with passwords, read from the provider at this moment; the service audits it and stores none.

        Raises Conflict with the code NO_CREDENTIALS_YET while the machine offers no login.

            >>> login = await client.instances.credentials("train")
            >>> login.ssh.user
            'root'
        """
        found = await self.get(named)
        return await self._transport.get(Credentials, f"{path_of(found.id)}/credentials")

    async def logs(
        self, named: str, *, source: LogSource = "instance", tail: int = 200, follow: bool = False
    ) -> AsyncGenerator[str]:
        """
        The last *tail* lines of a log, without line ends; with *follow* also each new line, until the service ends it.

        The `system` log has the pull of the image, the `instance` log what the container prints. Raises Conflict with
        the code NO_LOGS_YET before there is a log, RateLimited when too many follow one.

            >>> async for line in client.instances.logs("train", source="system", tail=5):
            ...     last = line
        """
        found = await self.get(named)
        query: Query = {"source": source, "tail": tail, "follow": follow}
        opening = self._transport.stream(
            f"{path_of(found.id)}/logs",
            query,
            {"Accept": "text/plain"},
            silence=FOLLOW_SECONDS if follow else SILENCE_SECONDS,
        )
        async with opening as pieces, contextlib.aclosing(lines_of(pieces)) as lines:
            async for line in lines:
                yield line

    async def image_pull(self, named: str) -> ImagePull:
        """How far the pull of the image is, as the system log shows it; otherwise as `logs`."""
        found = await self.get(named)
        return await self._transport.get(ImagePull, f"{path_of(found.id)}/image-pull")

    async def metrics(self, named: str, *, minutes: int = 60) -> Metrics:
        """
        How busy a machine was in the last *minutes* (1 to 1440); lists are empty when the provider has no values.

            >>> (await client.instances.metrics("train", minutes=10)).interval_seconds > 0
            True
        """
        found = await self.get(named)
        return await self._transport.get(Metrics, f"{path_of(found.id)}/metrics", {"minutes": minutes})

    async def _by_id(self, instance_id: str) -> Instance:
        return await self._transport.get(Instance, path_of(instance_id))

    async def _by_name(self, name: str) -> Sequence[Instance]:
        return [instance async for instance in self.list(name=name)]


def _chosen(name: str, found: Sequence[Instance], missing: NotFound | None) -> Instance:
    """The one instance of *found* that *name* means."""
    live = [instance for instance in found if instance.status not in GONE]
    if len(live) > 1:
        raise Ambiguous(name, live)
    if not found:
        raise missing or NotFound(f"there is no instance {name!r}", code="INSTANCE_NOT_FOUND", status=404)
    return live[0] if live else found[0]


def path_of(instance_id: str) -> str:
    """The route of one instance."""
    return f"/api/instances/{quote(instance_id, safe='')}"
