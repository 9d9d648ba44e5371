"""
The files by which a trial of `corral verify --spend` is remembered if its process is killed.

In the data directory: the mark of its machines, a lock that the running trial holds, the machine that was about to be
created, and the last one that was. The third is on disk before the create is sent, and removed when the machine is
known to be gone.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from corral.base.file_lock import FileLock
from corral.domain.errors import SettingsError
from corral.domain.verification.evidence import PastTrial
from corral.domain.verification.trial_names import TrialName, is_mark

_MOST_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTrial:
    """A machine that may exist."""

    name: str
    sent_at: datetime
    """When its create was about to be sent."""


class TrialFile:
    """The trials of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._directory = data_dir.absolute() / "verify"
        self._lock = FileLock(self._directory / "lock")

    @property
    def exists(self) -> bool:
        """Whether there ever was a trial here."""
        return self._mark_file.exists()

    def claim(self) -> bool:
        """Whether this process is now the only one that may create or delete trial machines of this directory."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._lock.claim()
        except OSError as error:
            raise self._unusable(error) from error

    def release(self) -> None:
        """Let another process do so."""
        self._lock.release()

    def mark(self) -> str:
        """The mark of all trial machines of this directory, chosen when it is first needed."""
        found = self._read(self._mark_file).strip()
        if not is_mark(found):
            found = secrets.token_hex(3)
            self._write(self._mark_file, found)
        return found

    def new_name(self) -> str:
        """A name for one more trial machine."""
        return str(TrialName(mark=self.mark(), serial=secrets.token_hex(4)))

    def pending(self) -> PendingTrial | None:
        """The machine that may have been left behind, if any."""
        try:
            return msgspec.json.decode(self._read(self._pending_file), type=PendingTrial)
        except msgspec.MsgspecError:
            return None

    def begin(self, trial: PendingTrial) -> None:
        """Write down that *trial* is about to be created; on disk when this returns."""
        self._write(self._pending_file, msgspec.json.encode(trial).decode())

    def end(self) -> None:
        """Forget the pending machine: it is gone, or never was."""
        self._pending_file.unlink(missing_ok=True)

    def remember(self, trial: PastTrial) -> None:
        """Write down the last trial, so that a later run finds it in the bill."""
        self._write(self._past_file, msgspec.json.encode(trial).decode())

    def past(self) -> PastTrial | None:
        """The last trial."""
        try:
            return msgspec.json.decode(self._read(self._past_file), type=PastTrial)
        except msgspec.MsgspecError:
            return None

    @property
    def _past_file(self) -> Path:
        return self._directory / "past"

    @property
    def _mark_file(self) -> Path:
        return self._directory / "mark"

    @property
    def _pending_file(self) -> Path:
        return self._directory / "pending"

    def _read(self, path: Path) -> str:
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                return file.read(_MOST_BYTES)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise self._unusable(error) from error

    def _write(self, path: Path, content: str) -> None:
        """Replace the file as a whole: a power cut leaves the old one or the new one."""
        draft = path.with_name(f".{path.name}.new")
        try:
            with draft.open("w", encoding="utf-8") as file:
                file.write(content + "\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            directory = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> SettingsError:
        return SettingsError(f"{self._directory} cannot be used: {error.strerror or error}")
