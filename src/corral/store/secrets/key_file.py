"""
The file with the key that secrets are sealed with: 32 random bytes as one line of base64, readable by its owner only.

It is read again when it changes, so that an operator can put the right one in place while the service runs.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from corral.base.settings.settings import StoreSettings
from corral.domain.errors import SettingsError
from corral.domain.lifecycle.creation import KEY_UNUSABLE
from corral.store.secrets.sealing import KEY_BYTES, SecretKey

NAME: Final = "secret.key"
"""In the data directory."""
_MOST_BYTES: Final = 1024
"""More than a key has; a file given by mistake is not read whole."""


def is_too_open(mode: int, *, owner: int, reader: int) -> bool:
    """
    Whether other users than *reader* may use a file of *owner*: the rule of PostgreSQL for its TLS key.

    An ordinary user can be given a file of root's only through its group; systemd (LoadCredential) and Kubernetes do.
    """
    is_given_by_root = owner == 0 and reader != 0
    return bool(mode & (0o037 if is_given_by_root else 0o077))


class SecretKeyFile:
    """Reads the key, and creates it when it is first needed to seal."""

    def __init__(self, path: Path, *, is_given: bool = False) -> None:
        self.path = path
        self._is_given = is_given
        """Whether the operator named the file: then it is not created, because a wrong name must not make a new key."""
        self._read: tuple[tuple[int, int, int], SecretKey] | None = None

    @classmethod
    def of(cls, store: StoreSettings) -> SecretKeyFile:
        """The file that the settings name, or the one in the data directory."""
        if store.secret_key_file is not None:
            return cls(store.secret_key_file, is_given=True)
        return cls(store.data_dir / NAME)

    def load(self) -> SecretKey | None:
        """The key; None if there is no file. Raises SettingsError for a file that must not or cannot be used."""
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):  # a data directory that cannot be used has its own error
            return None
        except OSError as error:
            raise self._unusable(f"cannot be read: {error.strerror}") from None
        self._check(status)
        version = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._read is None or self._read[0] != version:
            self._read = version, self._decoded()
        return self._read[1]

    def load_or_create(self) -> SecretKey:
        """The key, created if there is none; raises SettingsError as `load` does, and if it cannot be created."""
        key = self.load()
        if key is None:
            if self._is_given:
                raise self._unusable("does not exist")
            try:
                self._create()
            except OSError as error:
                raise self._unusable(f"cannot be created: {error.strerror}") from None
            key = self.load()
        if key is None:
            raise self._unusable("was removed")
        return key

    def check(self) -> None:
        """Raise SettingsError if there is a file that cannot be used, or none where the operator named one."""
        if self.load() is None and self._is_given:
            raise self._unusable("does not exist")

    def problem(self, needed: Mapping[str, int]) -> str | None:
        """Why this process cannot open the secrets of creates that wait, counted by the ids of their keys, if so."""
        try:
            self.check()
            key = self.load()
        except SettingsError as error:
            return error.message
        others = sorted(key_id for key_id in needed if key is None or key_id != key.id)
        if not others:
            return None
        waiting = sum(needed[key_id] for key_id in others)
        found = "does not exist" if key is None else f"has key {key.id}"
        return f"{waiting} creates wait with secrets of key {', '.join(others)}, and {self.path} {found}"

    def _create(self) -> None:
        """Write a new key under a temporary name and link it: of several processes one creates, and none sees half."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(new, self.path)
            except FileExistsError:
                return  # another process was first
        finally:
            new.unlink()
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # a row must not outlive its key
        finally:
            os.close(directory)

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise self._unusable("is not a file")
        mode = stat.S_IMODE(status.st_mode)
        if is_too_open(mode, owner=status.st_uid, reader=os.geteuid()):
            raise self._unusable(f"can be used by other users (mode {mode:o}): run `chmod 600` on it")

    def _decoded(self) -> SecretKey:
        try:
            with self.path.open("rb") as file:
                text = file.read(_MOST_BYTES)
        except OSError as error:
            raise self._unusable(f"cannot be read: {error.strerror}") from None
        try:
            key = base64.b64decode(text.strip(), validate=True)
        except binascii.Error:
            key = b""
        if len(key) != KEY_BYTES:
            raise self._unusable(f"has no key in it: one line of base64 of {KEY_BYTES} bytes is expected")
        return SecretKey(key)

    def _unusable(self, why: str) -> SettingsError:
        return SettingsError(f"the secret key file {self.path} {why}", code=KEY_UNUSABLE)
