"""Standard input and output connected to a port of a machine, for ssh's ProxyCommand."""

from __future__ import annotations

import os
import socket
import threading
from typing import Final

from corral.base.clock import SystemClock
from corral.cli.remote.errors import RemoteError
from corral.cli.remote.heartbeat import Heartbeat
from corral.cli.remote.login import MachineLogin
from corral.cli.remote.traffic import Traffic

CONNECT_SECONDS: Final = 15.0
"""A host that drops packets is reported, instead of waiting as long as the system does, for minutes."""
_PIECE: Final = 65_536
_STDIN: Final = 0
_STDOUT: Final = 1


def relay(login: MachineLogin, url: str | None) -> None:
    """
    Copy bytes both ways until the machine closes the connection; raises RemoteError when there is none.

    Reports to the service at *url* that the instance is used, once there is one: attempts to connect are no use.
    """
    traffic = Traffic(SystemClock())
    try:
        connection = socket.create_connection((login.host, login.port), timeout=CONNECT_SECONDS)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise RemoteError(f"{login.name} cannot be reached at {login.host} port {login.port}: {reason}") from error
    with connection, Heartbeat(url, login.instance_id, is_used=traffic.is_used) as heartbeat:
        heartbeat.start()
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_send, args=(connection, traffic), name="stdin", daemon=True).start()
        _receive(connection, traffic)


def _send(connection: socket.socket, traffic: Traffic) -> None:
    try:
        while piece := os.read(_STDIN, _PIECE):
            traffic.count(len(piece))
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other direction ends as well, and with it the command


def _receive(connection: socket.socket, traffic: Traffic) -> None:
    try:
        while piece := connection.recv(_PIECE):
            traffic.count(len(piece))
            while piece:
                piece = piece[os.write(_STDOUT, piece) :]
    except OSError:
        return  # ssh has gone, or the machine has; ssh says so
