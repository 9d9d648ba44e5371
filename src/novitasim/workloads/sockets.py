"""Loopback sockets of workloads."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


def bound(wanted: int = 0) -> socket.socket:
    """A socket on the port that is wanted, or on any if it is taken meanwhile."""
    listener = socket.socket()
    listener.setblocking(False)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, wanted))
    except OSError:
        listener.bind((HOST, 0))
    return listener
