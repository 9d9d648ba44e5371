"""
The simulator `novitasim` as a child process, for users without a provider key.

This file only starts it and reads its address. Its account is kept in the data directory. One process owns it; others
on the same data directory use the same one.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import SecretStr

from corral.base.clock import Clock
from corral.base.file_lock import FileLock
from corral.base.log import log
from corral.base.settings.settings import Settings
from corral.domain.errors import CloudTransientError, SettingsError

API_KEY = "simulated"
"""The key sent to the simulator, which accepts any."""
API_PATH = "/gpu-instance/openapi"
START_WITHIN_SECONDS = 15.0
_POLL_SECONDS = 0.05
_STOP_WITHIN_SECONDS = 5.0
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
"""The whole environment of the simulator: ours may contain secrets, such as WEBHOOK_SECRET."""


class SimulatedProvider:
    """The simulator of one data directory."""

    def __init__(self, data_dir: Path, clock: Clock) -> None:
        self._directory = data_dir.absolute() / "simulator"
        self._clock = clock
        self._child: subprocess.Popen[bytes] | None = None
        self._ownership = FileLock(self._directory / "lock")

    async def ensure(self) -> str:
        """
        Return the base URL of a running simulator: ours, another process's, or one started now.

        Raises CloudTransientError, naming its log, when it does not come up.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        began = self._clock.monotonic()
        while self._clock.monotonic() < began + START_WITHIN_SECONDS:
            is_ours = self._ownership.claim()
            if is_ours and not self._is_alive() and await self._has_left(began + _STOP_WITHIN_SECONDS):
                self._address_file.unlink(missing_ok=True)
                self._child = self._spawn()
            address = self._address() if self._is_alive() or not is_ours else None
            if address is not None:
                self._port_file.write_text(address.rsplit(":", 1)[-1], encoding="utf-8")
                return address + API_PATH
            await self._clock.sleep(_POLL_SECONDS)
        raise CloudTransientError(f"the provider simulator did not start; see {self._directory / 'log'}")

    def running(self) -> str | None:
        """The base URL of the simulator of this data directory, started by any process; None if there is none."""
        address = self._address()
        return None if address is None else address + API_PATH

    def needs_attention(self) -> bool:
        """
        Whether `ensure` has something to do: our simulator died, or its owner ended.

        A killed owner leaves its address behind but not its lock, so the lock decides: the process that gets it owns
        the simulator from then on.
        """
        return self._ownership.claim() and not self._is_alive()

    async def stop(self) -> None:
        """End the simulator if this process owns it."""
        if self._child is not None:
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._child.wait, _STOP_WITHIN_SECONDS)
            if self._child.stdin is not None:
                self._child.stdin.close()
            self._child = None
            self._address_file.unlink(missing_ok=True)
        self._ownership.release()

    @property
    def _address_file(self) -> Path:
        return self._directory / "address"

    @property
    def _port_file(self) -> Path:
        return self._directory / "port"

    async def _has_left(self, deadline: float) -> bool:
        """
        Whether the simulator of an owner that was killed listens no more, or *deadline* has passed.

        It ends by itself within moments; a new one started before that would find the port and the account in use.
        """
        address = self._address()
        if address is None or self._child is not None or self._clock.monotonic() > deadline:
            return True
        host, _, port = address.rpartition("//")[2].rpartition(":")
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), _STOP_WITHIN_SECONDS)
        except (OSError, ValueError):
            return True
        writer.close()
        return False

    def _is_alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def _address(self) -> str | None:
        try:
            return self._address_file.read_text(encoding="utf-8").strip() or None
        except FileNotFoundError:
            return None

    def _last_port(self) -> str:
        """
        The port it last had, so that published addresses stay valid; any free one if that fails.

        The file is removed when read: if the port is taken by now, the next try uses any port.
        """
        try:
            port = self._port_file.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return "0"
        self._port_file.unlink()
        return port if port.isdigit() else "0"

    def _spawn(self) -> subprocess.Popen[bytes]:
        if self._child is not None:
            log.warning("simulator.ended", status=self._child.returncode)
        state = self._directory / "account"
        port = self._last_port()
        with (self._directory / "log").open("ab") as output:
            child = subprocess.Popen(  # noqa: S603  # our own program and arguments
                [
                    *(sys.executable, "-m", "novitasim", "--port", port, "--state", str(state)),
                    *("--ready-file", str(self._address_file), "--exit-with-parent"),
                    *("--quirk", "ssh=server"),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=_ENVIRONMENT,
                start_new_session=True,  # a Ctrl-C in the terminal is for us alone
            )
        log.info("simulator.started", state=str(state))
        return child


@asynccontextmanager
async def opened_provider(
    settings: Settings, clock: Clock
) -> AsyncGenerator[tuple[SimulatedProvider | None, str, SecretStr]]:
    """The address and key of the provider; without a key, a simulator runs for as long as this is open."""
    if settings.provider.api_key is not None:
        yield None, settings.provider.base_url, settings.provider.api_key
        return
    simulated = SimulatedProvider(settings.store.data_dir, clock)
    try:
        try:
            base_url = await simulated.ensure()
        except OSError as error:
            path = settings.store.data_dir.absolute()
            raise SettingsError(f"CORRAL_DATA_DIR={path} cannot be used: {error.strerror or error}") from error
        yield simulated, base_url, SecretStr(API_KEY)
    finally:
        await simulated.stop()
