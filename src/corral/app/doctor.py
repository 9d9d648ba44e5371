"""
The checks of `corral doctor`.

They start and change nothing: one list call to the provider, reads of the database. Every failed check says what to do
next.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from corral import __version__
from corral.base.clock import Clock
from corral.base.settings.configuration import Configuration
from corral.base.settings.settings import Settings
from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.http import HttpExchange
from corral.cloud.simulated import API_KEY, SimulatedProvider
from corral.domain.errors import CloudError, SettingsError, StoreError
from corral.store.secrets.key_file import SecretKeyFile
from corral.store.server.cluster_location import find_binaries
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.migrate import SchemaReport, report
from corral.store.server.server_check import check_server
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import sealed_secrets
from corral_client import AsyncClient, CorralApiError

ASK_WITHIN_SECONDS: Final = 10.0
"""A person waits for the result; a provider that takes longer for one small list counts as unreachable."""
MOST_SKEW: Final = timedelta(seconds=60)
"""Receivers of webhooks refuse signatures some minutes old; a minute leaves room, and healthy clocks are far nearer."""
LEAST_FREE_BYTES: Final = 1_000_000_000
"""The database of a busy month is a few hundred MB, and PostgreSQL stops for good when its disk is full."""


class CheckStatus(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check and its outcome."""

    check: str
    status: CheckStatus
    found: str
    next_step: str | None = None


_Timed = tuple[CheckResult, timedelta | None]
"""The result of asking the provider or the database, and how far our clock is ahead of theirs; None: not known."""


async def examine(configuration: Callable[[], Configuration], clock: Clock, *, url: str | None) -> list[CheckResult]:
    """Run every check; *url* is the address of the service, by default the one from the settings."""
    try:
        settings = configuration().settings
    except SettingsError as error:
        step = "correct what is named here, in the environment or in .env; `corral config` lists all settings"
        return [_failed("settings", error.message, step)]
    address = url or f"http://{_host(settings)}:{settings.http.port}"
    (provider, ahead_of_provider), (database, ahead_of_database), secret_key, service = await asyncio.gather(
        _provider(settings, clock),
        _database(settings, clock),
        _secret_key(settings, clock),
        _service(settings, address),
    )
    return [
        _ok("settings", "every one is accepted"),
        _data_directory(settings.store.data_dir.absolute()),
        database,
        secret_key,
        provider,
        _clock(provider=ahead_of_provider, database=ahead_of_database),
        service,
    ]


def _host(settings: Settings) -> str:
    """The address to connect to: a wildcard address becomes loopback."""
    host = settings.http.host
    if host in {"0.0.0.0", "::"}:  # noqa: S104  # compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _data_directory(path: Path) -> CheckResult:
    name, place = "data directory", path
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        return _failed(name, f"{place} is not a directory", "choose another with CORRAL_DATA_DIR")
    if not os.access(place, os.W_OK | os.X_OK):
        return _failed(
            name, f"{place} cannot be written to", "give it to this user, or choose another: CORRAL_DATA_DIR"
        )
    free = shutil.disk_usage(place).free
    found = f"{path}{'' if place == path else ' (not made yet)'}, {free / 1e9:.1f} GB free"
    if free < LEAST_FREE_BYTES:
        return _failed(name, found, "free at least 1 GB there, or choose another place with CORRAL_DATA_DIR")
    return _ok(name, found)


async def _database(settings: Settings, clock: Clock) -> _Timed:
    name, url = "database", settings.store.database_url
    if url is not None:
        target, what = DatabaseTarget(url=url.get_secret_value()), "the server named by DATABASE_URL"
        step = "check DATABASE_URL, and that the server runs and lets this machine in"
    else:
        embedded = EmbeddedServer(settings.store.data_dir, clock)
        running, what = embedded.running(), "the embedded PostgreSQL"
        step = f"see the end of {embedded.log_path}"
        try:
            find_binaries()
        except StoreError as error:
            return _failed(name, "there is no PostgreSQL to run", error.message), None
        if running is None:
            return _ok(name, f"{what} is not running; `corral serve` starts it"), None
        target = running
    try:
        if url is not None:
            await check_server(target)
        seen = await report(target)
    except (StoreError, SettingsError) as error:
        return _failed(name, error.message, step), None
    except Exception as error:  # noqa: BLE001  # any refusal of the driver is a failed check
        return _failed(name, f"{what} refuses: {type(error).__name__}", step), None
    return _schema(seen, f"{what}, version {seen.server_version}"), clock.now() - seen.at


def _schema(seen: SchemaReport, found: str) -> CheckResult:
    name = "database"
    if seen.unknown:
        return _failed(name, f"{found}, was used by a newer Corral", "run that release, or restore an older database")
    if seen.missing:
        return _failed(name, f"{found}, lacks {len(seen.missing)} migrations", "run `corral migrate`")
    return _ok(name, f"{found}, schema up to date")


async def _secret_key(settings: Settings, clock: Clock) -> CheckResult:
    """Whether this process could open the secrets of creates that wait; without a database only what the file is."""
    name, key_file = "secret key", SecretKeyFile.of(settings.store)
    problem = key_file.problem(await _keys_needed(settings, clock))
    if problem is not None:
        step = "put the right key file in place, with mode 600; creates that wait for it are tried again"
        return _failed(name, problem, step)
    key = key_file.load()
    return _ok(name, "none yet; made with the first secret" if key is None else f"{key_file.path}, key {key.id}")


async def _keys_needed(settings: Settings, clock: Clock) -> Counter[str]:
    url = settings.store.database_url
    target = (
        EmbeddedServer(settings.store.data_dir, clock).running()
        if url is None
        else DatabaseTarget(url=url.get_secret_value())
    )
    if target is None:
        return Counter()
    try:
        database = await Database.connect(target, most_connections=1)
    except Exception:  # noqa: BLE001  # the check of the database says why
        return Counter()
    try:
        async with database.connection() as connection:
            return await sealed_secrets.keys_needed(connection)
    except Exception:  # noqa: BLE001  # as above: also a schema without the table
        return Counter()
    finally:
        await database.close()


async def _provider(settings: Settings, clock: Clock) -> _Timed:
    name, key = "provider", settings.provider.api_key
    if key is None:
        address = SimulatedProvider(settings.store.data_dir, clock).running()
        if address is None:
            return _ok(name, "the simulator; not running, `corral serve` starts it"), None
        return await _ask(address, SecretStr(API_KEY), "the simulator: nothing is real, nothing is billed", clock)
    return await _ask(settings.provider.base_url, key, f"the real one, at {settings.provider.base_url}", clock)


async def _ask(base_url: str, key: SecretStr, what: str, clock: Clock) -> _Timed:
    name = "provider"
    async with HttpExchange(
        base_url=base_url, api_key=key, timeout_seconds=ASK_WITHIN_SECONDS, clock=clock
    ) as exchange:
        began = clock.monotonic()
        try:
            clusters = await NovitaCloud(exchange).clusters()
        except CloudError as error:
            refused = error.code == "AUTHENTICATION_FAILED"
            step = "set a valid NOVITA_API_KEY" if refused else f"check that {base_url} can be reached from here"
            found = "refused the key" if refused else error.message
            return _failed(name, f"{what}: {found}", step), _ahead(exchange, clock.now())
        seconds = clock.monotonic() - began
        found = f"{what}; it took the key and listed {len(clusters)} clusters in {seconds * 1000:.0f} ms"
        return _ok(name, found), _ahead(exchange, clock.now())


def _ahead(exchange: HttpExchange, now: datetime) -> timedelta | None:
    return None if exchange.provider_time is None else now - exchange.provider_time


def _clock(*, provider: timedelta | None, database: timedelta | None) -> CheckResult:
    name, step = "clock", "set the clock of this machine (by NTP); signatures and deadlines depend on it"
    if provider is not None and abs(provider) > MOST_SKEW:
        return _failed(name, _skew(provider, "the provider's"), step)
    if database is not None and abs(database) > MOST_SKEW:
        return _failed(name, f"{_skew(database, 'the database')}'s, which is used instead", step)
    if provider is None:
        return CheckResult(check=name, status=CheckStatus.SKIPPED, found="no answer of the provider included its time")
    return _ok(name, f"within {max(1, round(abs(provider.total_seconds())))} s of the provider's")


def _skew(ahead: timedelta, reference: str) -> str:
    seconds = ahead.total_seconds()
    return f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} {reference}"


async def _service(settings: Settings, address: str) -> CheckResult:
    name = "service"
    try:
        async with AsyncClient(address, timeout=ASK_WITHIN_SECONDS, max_retries=0) as client:
            health = await client.health()
    except CorralApiError as error:
        return _failed(name, error.message, "start it with `corral serve`, or say where it is with --url")
    provider = health.dependencies.get("novitaApi")
    simulated = isinstance(provider, dict) and provider.get("kind") == "simulator"
    found = f"Corral {health.version} at {address}, on {'the simulator' if simulated else 'the real provider'}"
    down = [part for part, word in health.services.items() if word != "up"]
    if down:
        return _failed(name, f"{found}; down: {', '.join(down)}", f"see its log, and {address}/health")
    if health.version != __version__:
        return _failed(name, f"{found}; this command is {__version__}", "restart the service after an upgrade")
    if simulated != (settings.provider.api_key is None):
        have = "no NOVITA_API_KEY is set here" if not simulated else "NOVITA_API_KEY is set here"
        return _failed(name, f"{found}; {have}", "restart the service with the settings that are meant")
    return _ok(name, found)


def _ok(check: str, found: str) -> CheckResult:
    return CheckResult(check=check, status=CheckStatus.OK, found=found)


def _failed(check: str, found: str, next_step: str) -> CheckResult:
    return CheckResult(check=check, status=CheckStatus.FAILED, found=found, next_step=next_step)
