"""Servers and clients on loopback: the service itself, receivers, name servers, a browser."""
