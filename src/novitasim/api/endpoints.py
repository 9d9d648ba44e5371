"""
The addresses under which an instance's ports are reached, in the provider's own style.

These names look real and lead nowhere. `workloads.py` gives addresses that answer; both have the same shape for the
renderer.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from novitasim.world.instance import Instance, Port

_DOMAIN = "gpu-instance.novita.ai"
_FIRST_TCP_PORT, _TCP_PORTS = 30_000, 30_000

SSH = Port(port=22, type="tcp")
TERMINAL = Port(port=7681, type="http")


class Endpoints(Protocol):
    """Maps ports of instances to addresses."""

    def address(self, instance: Instance, port: Port) -> str:
        """The endpoint of a port: a URL for http, host:port for tcp."""
        ...

    def ssh_address(self, instance: Instance) -> str:
        """Where ssh is reached, host:port; empty if the instance offers none."""
        ...

    def log_address(self, instance: Instance, kind: str) -> str:
        """Where the logs of an instance stream from."""
        ...


class RealisticEndpoints:
    """Addresses as the provider gives them; *changing* ones are new after every start."""

    def __init__(self, *, changing: bool = False) -> None:
        self._changing = changing

    def address(self, instance: Instance, port: Port) -> str:
        """`https://ID-PORT.CLUSTER...` for http, `proxy.CLUSTER...:RANDOM` for tcp."""
        where = f"{instance.order.cluster_id}.{_DOMAIN}"
        name = self._name(instance)
        if port.type == "http":
            return f"https://{name}-{port.port}.{where}"
        digest = hashlib.blake2b(f"{name}/{port.port}".encode(), digest_size=4).digest()
        return f"proxy.{where}:{_FIRST_TCP_PORT + int.from_bytes(digest, 'big') % _TCP_PORTS}"

    def ssh_address(self, instance: Instance) -> str:
        """The address of port 22."""
        return self.address(instance, SSH)

    def log_address(self, instance: Instance, kind: str) -> str:
        """A stream of text."""
        return f"https://log.{instance.order.cluster_id}.{_DOMAIN}/{instance.id}/{kind}"

    def _name(self, instance: Instance) -> str:
        return f"{instance.id}r{instance.starts}" if self._changing and instance.starts > 1 else instance.id
