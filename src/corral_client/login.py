"""
Which service a program calls, and with which key.

In order of precedence: the argument; the variables `CORRAL_URL` and `CORRAL_API_KEY`; what `corral login` stored; port
3000 of this machine, without a key. A stored key is sent only to the address that it was stored for.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from corral_client.errors import UNREADABLE, CorralError

DEFAULT_URL: Final = "http://127.0.0.1:3000"
KEY_VARIABLE: Final = "CORRAL_API_KEY"
URL_VARIABLE: Final = "CORRAL_URL"


class Login(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An address and the key for it; None where the service needs none."""

    url: str
    api_key: str | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The service to call and the key to send, and where each was found: argument, environment, login or default."""

    url: str
    url_origin: str
    api_key: str | None
    key_origin: str


def target(base_url: str | None = None, api_key: str | None = None) -> Target:
    """What to call: *base_url* and *api_key* where given, an empty key for none; raises CorralError."""
    login = stored_login()
    url, url_origin = _first(
        (base_url or None, "argument"),
        (_variable(URL_VARIABLE), "environment"),
        (None if login is None else login.url, "login"),
        (DEFAULT_URL, "default"),
    )
    key, key_origin = (api_key, "argument") if api_key is not None else (_variable(KEY_VARIABLE), "environment")
    if key is None and login is not None and login.url == url.rstrip("/"):
        key, key_origin = login.api_key, "login"
    return Target(url=url, url_origin=url_origin, api_key=key or None, key_origin=key_origin if key else "default")


def stored_login() -> Login | None:
    """What `corral login` stored; raises CorralError when it cannot be read."""
    file = login_file()
    try:
        return None if file is None else msgspec.json.decode(file.read_bytes(), type=Login)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CorralError(f"{file} cannot be read: {error.strerror}") from error
    except UNREADABLE as error:
        raise CorralError(f"{file} is not a login; `corral logout` removes it") from error


def store_login(login: Login) -> Path:
    """Write *login* to a file that only its owner can read, and return its path; raises CorralError."""
    file = login_file()
    if file is None:
        raise CorralError("there is no home directory to store a login in; set XDG_CONFIG_HOME")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=file.parent)  # of mode 600
        try:
            with os.fdopen(descriptor, "wb") as output:
                output.write(msgspec.json.encode(login))
            Path(draft).replace(file)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(draft).unlink()
            raise
    except OSError as error:
        raise CorralError(f"{file} cannot be written: {error.strerror}") from error
    return file


def remove_login() -> bool:
    """Remove the stored login, also an unreadable one; returns whether there was one. Raises CorralError."""
    file = login_file()
    if file is None:
        return False
    try:
        file.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise CorralError(f"{file} cannot be removed: {error.strerror}") from error
    return True


def login_file() -> Path | None:
    """Where a login is stored; None without a home directory."""
    folder = Path(_variable("XDG_CONFIG_HOME") or "")
    if not folder.is_absolute():  # as the XDG specification says
        try:
            folder = Path("~/.config").expanduser()
        except RuntimeError:
            return None
    return folder / "corral" / "login.json"


def _variable(name: str) -> str | None:
    return os.environ.get(name) or None  # noqa: TID251  # a setting of the caller, not of the service


def _first(*found: tuple[str | None, str]) -> tuple[str, str]:
    return next((value, origin) for value, origin in found if value is not None)
