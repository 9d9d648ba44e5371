"""Providers that answer as the test says, and the client that talks to them."""
