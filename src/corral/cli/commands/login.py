"""`corral login`, `whoami` and `logout`: which service the commands call, and as which key."""

from __future__ import annotations

import getpass
import ipaddress
import sys
from typing import Annotated
from urllib.parse import urlsplit

import typer

from corral.cli.options import RETRIES, Json, Url, connect
from corral.cli.output import print_json, print_line, print_note
from corral.domain.errors import MalformedError
from corral_client import Client, CorralError, Identity, Unauthorised
from corral_client.login import KEY_VARIABLE, URL_VARIABLE, Login, remove_login, store_login, stored_login, target

commands = typer.Typer()


@commands.command(rich_help_panel="Access")
def login(url: Annotated[str, typer.Argument(help="Where the service is, such as https://corral.example.")]) -> None:
    """
    Store the address of a service and your key for it, for all commands and Python programs of this user.

    The key is asked for without echo, or read from standard input; it is checked before it is stored.
    """
    url = url.rstrip("/")
    if not url:  # for the SDK, this is the default address
        raise MalformedError("the address of the service is empty; nothing was stored")
    key = _read_key(url)
    with Client(url, key, max_retries=RETRIES) as client:
        try:
            identity = client.whoami()
        except Unauthorised as error:
            what = "this service needs a key" if not key else error.message
            print_note(f"corral: {what}; nothing was stored")
            raise typer.Exit(1) from None
    file = store_login(Login(url=url, api_key=key or None))
    print_line(f"Logged in to {url} as {_described(identity)}.")
    print_note(f"Stored in {file}, which only you can read; `corral logout` removes it.")
    if key and _is_readable_on_the_way(url):
        print_note("The connection is not encrypted: others on the network can read the key. Use https.")
    now = target()
    if "environment" in {now.url_origin, now.key_origin}:
        print_note(f"{URL_VARIABLE} or {KEY_VARIABLE} is set here and takes precedence over the login.")


@commands.command(rich_help_panel="Access")
def whoami(json: Json = False, url: Url = None) -> None:
    """Say which service the commands call, who you are there and what you may do."""
    found = target(url)
    with connect(url) as client:
        identity = client.whoami()
    if json:
        shown = {"url": found.url, "urlFrom": found.url_origin, "keyFrom": found.key_origin}
        print_json({**shown, "name": identity.name, "role": identity.role, "keyRequired": identity.key_required})
        return
    origins = {"argument": "from --url", "environment": f"from {URL_VARIABLE}", "login": "from `corral login`"}
    print_line(f"{_described(identity)} at {found.url} ({origins.get(found.url_origin, 'the default')})")


@commands.command(rich_help_panel="Access")
def logout() -> None:
    """Remove the stored address and key. The key itself stays valid: `corral keys revoke` ends it."""
    url = _stored_url()
    print_line("You are not logged in." if not remove_login() else f"Logged out{url}.")


def _stored_url() -> str:
    """As part of a sentence; empty when there is no login, or none that can be read."""
    try:
        found = stored_login()
    except CorralError:
        return ""
    return "" if found is None else f" of {found.url}"


def _read_key(url: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    try:  # getpass ends the echo before it asks, so that a pasted key is never shown
        return getpass.getpass(f"API key for {url} (none: press Enter): ").strip()
    except EOFError:
        raise MalformedError("no key was given; nothing was stored") from None


def _described(identity: Identity) -> str:
    if not identity.key_required and identity.name == "local":
        return "local, admin: this service needs no key from here"
    return f"{identity.name}, {identity.role}"


def _is_readable_on_the_way(url: str) -> bool:
    """Whether *url* sends in clear text to another machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        is_local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    return parts.scheme == "http" and not is_local
