"""What can be read about an instance, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from corral_client.instance_reads import AsyncInstanceReads
from corral_client.models.instances import Instance, Operation
from corral_client.models.machines import Credentials, ImagePull, Metrics
from corral_client.models.orders import LogSource
from corral_client.sync.looping import LoopThread


class InstanceReads:
    """The part of `client.instances` that changes nothing; see `AsyncInstanceReads`."""

    def __init__(self, inner: AsyncInstanceReads, loop: LoopThread) -> None:
        self._reads = inner
        self._loop = loop

    def get(self, named: str) -> Instance:
        """
        One instance as it is now; raises NotFound, or Ambiguous when several live ones have that name.

            >>> client.instances.get("train").status
            'ready'
        """
        return self._loop.run(self._reads.get(named))

    def list(
        self,
        *,
        status: str | None = None,
        name: str | None = None,
        region: str | None = None,
        owner: str | None = None,
        label: str | Sequence[str] | None = None,
        q: str | None = None,
        page_size: int = 100,
    ) -> Generator[Instance]:
        """
        All instances that match, newest first, read page by page as they are consumed.

            >>> [instance.name for instance in client.instances.list(status="ready", name="train")]
            ['train']
        """
        return self._loop.iterate(
            self._reads.list(
                status=status, name=name, region=region, owner=owner, label=label, q=q, page_size=page_size
            )
        )

    def count(self, *, status: str | None = None, name: str | None = None, region: str | None = None) -> int:
        """
        How many instances match, also those that are gone, without reading them.

            >>> client.instances.count(status="ready", name="train")
            1
        """
        return self._loop.run(self._reads.count(status=status, name=name, region=region))

    def operations(self, named: str) -> Sequence[Operation]:
        """
        What was asked of an instance, newest first.

            >>> client.instances.operations("train")[-1].kind
            'create'
        """
        return self._loop.run(self._reads.operations(named))

    def credentials(self, named: str) -> Credentials:
        """
        How to log in, with passwords, read from the provider at this moment; the service audits it and stores none.

        Raises Conflict with the code NO_CREDENTIALS_YET while the machine offers no login.

            >>> client.instances.credentials("train").ssh.user
            'root'
        """
        return self._loop.run(self._reads.credentials(named))

    def logs(
        self, named: str, *, source: LogSource = "instance", tail: int = 200, follow: bool = False
    ) -> Generator[str]:
        """
        The last *tail* lines of a log, without line ends; with *follow* also each new line, until the service ends it.

        The `system` log has the pull of the image, the `instance` log what the container prints. Raises Conflict with
        the code NO_LOGS_YET before there is a log, RateLimited when too many follow one.

            >>> len(list(client.instances.logs("train", source="system", tail=1)))
            1
        """
        return self._loop.iterate(self._reads.logs(named, source=source, tail=tail, follow=follow))

    def image_pull(self, named: str) -> ImagePull:
        """
        How far the pull of the image is, as the system log shows it; otherwise as `logs`.

            >>> client.instances.image_pull("train").pulling
            False
        """
        return self._loop.run(self._reads.image_pull(named))

    def metrics(self, named: str, *, minutes: int = 60) -> Metrics:
        """
        How busy a machine was in the last *minutes* (1 to 1440); lists are empty when the provider has no values.

            >>> client.instances.metrics("train", minutes=10).interval_seconds > 0
            True
        """
        return self._loop.run(self._reads.metrics(named, minutes=minutes))
