"""
The ssh ports of machines: one listening port for each, on loopback, opened when a running machine's address is shown.

A port costs one socket until a client speaks: clients that only connect, as health checks do, never reach the ssh
server, and the first that speaks causes its import. The server is `ssh_server.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from novitasim.server.clock import pause
from novitasim.server.simulator import Simulator
from novitasim.workloads.shell import Machine
from novitasim.workloads.sockets import bound
from novitasim.world import load
from novitasim.world.account import SshPort
from novitasim.world.instance import Instance
from novitasim.world.timeline import Status

_SERVER = "novitasim.workloads.ssh_server"
# An ssh client speaks at once. One that is silent for so long may wait for the greeting, which the server sends.
_SILENT_SECONDS = 0.5
# How soon a connection ends when its machine stops.
_LOOK_SECONDS = 0.2

_log = logging.getLogger("novitasim")


@dataclass(frozen=True, slots=True)
class _Listener:
    socket: socket.socket
    port: int
    life: int


class SshPorts:
    """The ssh ports of all machines of one simulator; *forward* gives the loopback port of a machine's port."""

    def __init__(self, simulator: Simulator, forward: Callable[[Instance, int], int | None]) -> None:
        self._simulator = simulator
        self._forward = forward
        self._listeners: dict[str, _Listener] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_installed: bool | None = None
        self._swept_at = 0.0
        self._keys: dict[str, set[str]] = {}

    def start(self) -> None:
        """Open the ports that machines had before a restart of the simulator."""
        self._close_removed()
        for instance_id in list(self._simulator.world.ssh_ports):
            if (instance := self._running(instance_id)) is not None:
                self.port(instance)

    async def stop(self) -> None:
        """Close every port and connection."""
        for instance_id in list(self._listeners):
            self._shut(self._listeners.pop(instance_id))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def is_offered(self) -> bool:
        """Whether machines have ssh servers; logs once if they should and asyncssh is missing."""
        if self._simulator.world.settings.ssh != "server":
            return False
        if self._is_installed is None:
            self._is_installed = importlib.util.find_spec("asyncssh") is not None
            if not self._is_installed:
                _log.warning("simulated machines offer no ssh: asyncssh is not installed (extra `simulator`)")
        return self._is_installed

    def port(self, instance: Instance) -> int | None:
        """The ssh port of a running machine, opened if it is not yet; None if as many as allowed are open."""
        settings = self._simulator.world.settings
        life = self._life(instance) if settings.ssh_port_changes else 0
        known = self._listeners.get(instance.id)
        if known is not None and known.life == life:
            return known.port
        if known is None and len(self._listeners) >= settings.ssh_listeners:
            self._close_removed()
            if len(self._listeners) >= settings.ssh_listeners:
                return None
        number = self._open(instance.id, life, wants_old=known is None)
        if known is not None:  # closed after the new one is open, so that the number changes
            self._shut(known)
        return number

    def _open(self, instance_id: str, life: int, *, wants_old: bool) -> int:
        world = self._simulator.world
        before = world.ssh_ports.get(instance_id)
        listening = bound(before.port if before and wants_old else 0)
        listening.listen()
        number = int(listening.getsockname()[1])
        self._listeners[instance_id] = _Listener(listening, number, life)
        asyncio.get_running_loop().add_reader(listening, self._accept, instance_id)
        world.keep("ssh_port", world.ssh_ports, SshPort(id=instance_id, port=number))
        self._simulator.record()
        return number

    def _shut(self, listener: _Listener) -> None:
        asyncio.get_running_loop().remove_reader(listener.socket)
        listener.socket.close()

    def _close_removed(self) -> None:
        """Make room; at most once a second, because every machine beyond the limit asks for it."""
        world, now = self._simulator.world, self._simulator.clock.now()
        if now < self._swept_at + 1:
            return
        self._swept_at = now
        for instance_id in {*world.ssh_ports, *self._listeners}:
            instance = world.instances.get(instance_id)
            if instance is None or instance.removed_at() <= now:
                if instance_id in world.ssh_ports:
                    world.discard("ssh_port", world.ssh_ports, instance_id)
                if listener := self._listeners.pop(instance_id, None):
                    self._shut(listener)

    def _accept(self, instance_id: str) -> None:
        try:
            connected, _ = self._listeners[instance_id].socket.accept()
        except OSError:
            return  # the client has left already
        connected.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(connected, instance_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connected: socket.socket, instance_id: str) -> None:
        server, instance = None, self._running(instance_id)
        try:
            if instance is not None and await _speaks(connected):
                server = await asyncio.to_thread(importlib.import_module, _SERVER)
        finally:
            if server is None:
                connected.close()
        if server is None or instance is None:
            return
        connection = await server.serve(connected, self._guest(server, instance))  # which closes the socket
        if connection is None:
            return
        life = self._life(instance)
        try:
            while not connection.is_closed() and (now := self._running(instance_id)) and self._life(now) == life:
                await pause(_LOOK_SECONDS)
        finally:
            connection.abort()

    def _guest(self, server: ModuleType, instance: Instance) -> object:
        world = self._simulator.world
        seed = f"{world.seed}/host-key/{instance.seq}"
        if world.settings.ssh_host_key == "new":
            seed += f"/{self._life(instance)}"

        def forward(port: int) -> int | None:
            present = self._running(instance.id)
            return self._forward(present, port) if present else None

        return server.Guest(
            password=world.password_of(instance),
            keys=self._keys.setdefault(instance.id, set()),
            host_key_seed=seed,
            machine=lambda: self._machine(instance.id),
            forward=forward,
        )

    def _machine(self, instance_id: str) -> Machine:
        world, now = self._simulator.world, self._simulator.clock.now()
        instance = world.instances[instance_id]
        order, history = instance.order, world.loads.get(instance_id)
        product = world.catalog.products.get(order.product_id)
        busy = (
            load.value(instance, history, load.GPU, gpu=gpu, at=now, usual=world.settings.load)
            for gpu in range(order.gpus)
        )
        return Machine(
            name=order.name or instance.id,
            env={env.key: env.value for env in order.envs},
            gpu_name=product.name if product else "",
            gpus=order.gpus,
            mounts=tuple(mount.path for mount in order.mounts),
            gpu_load=tuple(value or 0.0 for value in busy),
        )

    def _running(self, instance_id: str) -> Instance | None:
        now = self._simulator.clock.now()
        instance = self._simulator.world.instances.get(instance_id)
        is_up = instance is not None and instance.status(now) is Status.RUNNING and not instance.vanished(now)
        return instance if is_up else None

    def _life(self, instance: Instance) -> int:
        """How often the machine has come up."""
        now = self._simulator.clock.now()
        return sum(step.status is Status.RUNNING and step.at <= now for step in instance.course)


async def _speaks(connected: socket.socket) -> bool:
    """Whether the client has sent something, or at least stays; what it sent is left for the server to read."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connected, readable.set)
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(readable.wait(), _SILENT_SECONDS)
    finally:
        loop.remove_reader(connected)
    try:
        return bool(connected.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False
