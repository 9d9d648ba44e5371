"""The progress of an image pull, read beside a wait for its machine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Final, Self

from corral_client import Client, Conflict, CorralError, ImagePull

READ_SECONDS: Final = 2.0
"""The service reads the log as often; a longer pause would make a short pull invisible."""
_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


class PullReader:
    """Reads how far the pull is and passes it to *show*, on a thread of its own, while *is_wanted*."""

    def __init__(
        self, client: Client, named: str, show: Callable[[ImagePull | None], None], is_wanted: Callable[[], bool]
    ) -> None:
        self._client = client
        self._named = named
        self._show = show
        self._is_wanted = is_wanted
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="image-pull", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()

    def _read(self) -> None:
        while not self._ended.is_set():
            if self._is_wanted():
                try:
                    self._show(self._client.instances.image_pull(self._named))
                except Conflict:  # there is no log yet
                    self._show(None)
                except (
                    CorralError,
                    CancelledError,
                    RuntimeError,
                ):  # not allowed, an earlier release, or a closed client
                    return
            else:
                self._show(None)
            self._ended.wait(READ_SECONDS)


def pull_line(pull: ImagePull) -> str:
    """How far the pull is, in layers, bytes and percent."""
    layers = f"pulling the image: {pull.layers_complete} of {pull.layers} layers"
    if not pull.bytes_total:
        return layers
    percent = "" if pull.percent is None else f" ({pull.percent:.0f} %)"
    return f"{layers}, {size(pull.bytes_done)} of {size(pull.bytes_total)}{percent}"


def size(count: float) -> str:
    """*count* bytes in the largest unit of which there is one."""
    unit, name = next(((unit, name) for unit, name in _UNITS if count >= unit), (1, "B"))
    return f"{count / unit:.3g} {name}"
