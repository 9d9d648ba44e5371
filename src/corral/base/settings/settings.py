"""
Every setting: its name, its unit, its default and why.

Only declarations; `configuration.py` reads them. Names without the `CORRAL_` prefix are those of the original system
and keep its meaning. The docstring under each field is what `corral config` and the reference page print.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from corral.base import urls
from corral.base.settings.fields import Duration, Networks, Origins, Words
from corral.base.settings.fields import accepted as _accepted
from corral.base.settings.fields import address as _address
from corral.base.settings.fields import choice as _choice
from corral.base.settings.fields import duration as _duration
from corral.base.settings.fields import flag as _flag
from corral.base.settings.fields import header as _header
from corral.base.settings.fields import is_header_value as _is_header_value
from corral.base.settings.fields import is_user_header as _is_user_header
from corral.base.settings.fields import secret as _secret
from corral.base.settings.fields import text as _text
from corral.base.settings.fields import whole as _whole
from corral.base.settings.fields import words as _words
from corral.domain.delivery import WebhookFormat, receiver_address


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @classmethod
    def _missing_(cls, value: object) -> LogLevel | None:
        """Accept any capitals: LOG_LEVEL=INFO is what many people write."""
        return next((level for level in cls if isinstance(value, str) and level == value.lower()), None)


class Group(BaseModel):
    """Settings that belong together; immutable, and read by the names of the environment."""

    model_config = ConfigDict(frozen=True, populate_by_name=False, extra="forbid")


class HttpSettings(Group):
    """Where the service listens and which callers it accepts."""

    host: str = _text("HOST", "127.0.0.1")
    """Address to listen on. Any address but loopback needs an API key to exist first."""
    port: int = _whole("PORT", 3000, 0, 65535)
    """TCP port to listen on; 0 takes any free one and says which."""
    allowed_origins: Origins = _words(
        "ALLOWED_ORIGINS", (), accepts="a comma-separated list of origins, as in https://ops.example"
    )
    """Browser origins allowed to call the API (CORS), comma-separated. Empty: none. `*` and patterns with it are
    refused on a loopback address, where no key is needed."""
    rate_limit_window_ms: int = _whole("RATE_LIMIT_WINDOW_MS", 900_000, 1000, 86_400_000)
    """Milliseconds over which requests of one API key, or of one address without a key, are counted."""
    rate_limit_max_requests: int = _whole("RATE_LIMIT_MAX_REQUESTS", 0, 0, 10_000_000)
    """Requests one of them may make in that window, to all processes together. 0: no limit. `/health*` is free."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return urls.is_loopback(self.host)


class ProxyLoginSettings(Group):
    """Users whom a proxy in front authenticates."""

    header: Annotated[str | None, _accepted(_is_user_header)] = _header("AUTH_PROXY_HEADER")
    """Header with the name of the user that a proxy authenticated, as in `Remote-User`. Unset: no such login. A key, if
    one is sent, counts instead. From the proxy's addresses, requests with neither are refused, also on this machine."""
    addresses: Networks = _words(
        "AUTH_PROXY_ADDRESSES",
        (),
        accepts="a comma-separated list of addresses and networks, as in 10.0.0.5,10.1.0.0/24, but not all addresses",
    )
    """Addresses of that proxy, comma-separated; the header is refused from every other. The proxy must replace the
    header if a client sends it."""
    role: Literal["viewer", "operator", "admin"] = _choice("AUTH_PROXY_ROLE", "viewer", ("viewer", "operator", "admin"))
    """What these users may do; one who may do more gets a key."""


class ProviderSettings(Group):
    """The account at novita.ai, and how often it is called."""

    api_key: Annotated[SecretStr | None, _accepted(_is_header_value)] = _secret(
        "NOVITA_API_KEY", accepts="printable ASCII characters without spaces"
    )
    """Key of the novita.ai account. Unset: the built-in simulator replaces the provider."""
    base_url: Annotated[str, _accepted(urls.is_provider_address)] = _address(
        "NOVITA_API_BASE_URL",
        "https://api.novita.ai/gpu-instance/openapi",
        accepts="an https:// address, or http:// on this machine",
    )
    """Where the provider's API is, without the version, a user name or a password."""
    request_timeout_ms: int = _whole("REQUEST_TIMEOUT", 30_000, 100, 600_000)
    """Milliseconds until a call to the provider is given up."""
    max_retry_attempts: int = _whole("MAX_RETRY_ATTEMPTS", 3, 1, 10)
    """How often a failed job, or a provider call that is safe to repeat, is retried."""
    rate_limit_per_minute: Literal["auto"] | Annotated[int, Field(ge=1, le=100_000)] = Field(
        "auto", alias="NOVITA_RATE_LIMIT_PER_MINUTE", title="auto, or a whole number from 1 to 100000"
    )
    """Calls a minute to the provider, by all processes together; `auto` learns the limit from its answers."""
    metrics_share: float = Field(0.2, alias="CORRAL_METRICS_SHARE", ge=0.01, le=0.5, title="a number from 0.01 to 0.5")
    """Share of these calls that may read how busy machines are, for plots, `corral top` and idle rules of leases."""
    breaker_threshold: int = _whole("CIRCUIT_BREAKER_THRESHOLD", 0, 0, 1000)
    """Failures in a row after which the provider is not called for a while. 0: 2 more than MAX_RETRY_ATTEMPTS, at
    least 5."""
    breaker_recovery_ms: int = _whole("CIRCUIT_BREAKER_RECOVERY_MS", 60_000, 5000, 3_600_000)
    """Longest pause, in milliseconds, before a failing provider is called again; the first pause is 5 s."""


class StoreSettings(Group):
    """Where Corral stores its records."""

    database_url: Annotated[SecretStr | None, _accepted(urls.is_database_address)] = _secret(
        "DATABASE_URL", accepts="a postgresql:// address"
    )
    """A PostgreSQL server to use (postgresql://...). Unset: an embedded one in the data directory."""
    data_dir: Path = Field(Path(".corral"), alias="CORRAL_DATA_DIR", title="a path")
    """Directory for the embedded database, the simulator's account and the key of secrets."""
    secret_key_file: Path | None = Field(None, alias="CORRAL_SECRET_KEY_FILE", title="a path")
    """File with the key that the secrets of creates are encrypted with; it must exist and have mode 600 or 400, one
    of root's also 640 or 440. Every process needs the same key. Unset: `secret.key` in the data directory, made when it
    is needed."""
    event_retention_days: int = _whole("CORRAL_EVENT_RETENTION", 90, 31, 3650)
    """Days that events, audit lines and earlier operations are kept; instances are forgotten so long after their end.
    At least 31, because charts and deliveries go back 30 days."""


class InstanceSettings(Group):
    """How instances are placed, watched and shown."""

    default_region: str = _text("DEFAULT_REGION", "CN-HK-01")
    """Region tried first when a request names none."""
    regions: Words = _words("CORRAL_REGIONS", ("AS-SGP-02", "CN-HK-01", "AS-IN-01"), least=1)
    """Regions tried in this order after the preferred one, comma-separated."""
    poll_interval_seconds: int = _whole("INSTANCE_POLL_INTERVAL", 30, 1, 300)
    """Seconds between listings of the provider account when nothing is in motion."""
    startup_max_wait_ms: int = _whole("INSTANCE_STARTUP_MAX_WAIT_TIME", 600_000, 10_000, 86_400_000)
    """Milliseconds a start may take before it counts as failed."""
    startup_name_lookup: bool = _flag("INSTANCE_STARTUP_ENABLE_NAME_LOOKUP", default=True)
    """Whether a start by name may look an unknown name up at the provider."""
    ready_status: Literal["ready", "running"] = _choice("CORRAL_READY_STATUS", "ready", ("ready", "running"))
    """The word shown for a ready instance; `running` for old clients that wait for that word."""
    orphans: Literal["report", "delete"] = _choice("CORRAL_ORPHANS", "report", ("report", "delete"))
    """What to do with provider instances that carry our mark but belong to no record; `delete` spares each for an hour.
    Never with a copy of a database that is in use: what the original created since would be taken for orphans. The late
    result of a create call that had been given up is deleted after an hour in any case."""


class LeaseSettings(Group):
    """How long instances may live."""

    default_ttl: Duration | None = _duration("CORRAL_DEFAULT_TTL", 365)
    """Longest time that an instance runs, from when it is ready, if its request names none. Unset: no limit."""
    default_idle: Duration | None = _duration("CORRAL_DEFAULT_IDLE", 30)
    """How long an instance must be idle until it is stopped, if its request says nothing. Unset: it is not."""
    max_ttl: Duration | None = _duration("CORRAL_MAX_TTL", 365)
    """Longest that a request or an extension may let an instance run, and the limit of one created without any; it cuts
    CORRAL_DEFAULT_TTL. Adopted ones have no limit until they are given a lease. Unset: no ceiling."""


class CostSettings(Group):
    """What is done about money."""

    reconcile: bool = _flag("CORRAL_RECONCILE", default=True)
    """Whether each day's usage is compared with the provider's bill, from two hours after its end on. It takes a few
    calls a day, and nothing else depends on it."""
    reserve_hours: float = Field(1.0, alias="CORRAL_RESERVE_HOURS", gt=0, le=744, title="a number above 0, up to 744")
    """Hours of its price that every create and start reserves in the budgets that it belongs to. More, and a limit is
    kept for longer without a further request; less, and more machines run at the same time within it."""
    low_balance_hours: int = _whole("CORRAL_LOW_BALANCE_HOURS", 12, 0, 8760)
    """The event `account.low_balance` is sent when the provider's balance lasts for fewer hours at the present cost; it
    is compared every ten minutes while machines cost money. 0: the balance is not read."""


class JobSettings(Group):
    """How much background work runs at once."""

    max_concurrent: int = _whole("MAX_CONCURRENT_JOBS", 10, 1, 100)
    """Jobs one worker process runs at the same time. One that waits for a commit which it shares with others does not
    count."""


class HealthCheckSettings(Group):
    """Defaults of the checks that make a running instance ready."""

    timeout_ms: int = _whole("HEALTH_CHECK_TIMEOUT_MS", 10_000, 1000, 300_000)
    """Milliseconds one check may take."""
    retry_attempts: int = _whole("HEALTH_CHECK_RETRY_ATTEMPTS", 3, 0, 10)
    """How often a failed check of an endpoint is repeated within one round."""
    retry_delay_ms: int = _whole("HEALTH_CHECK_RETRY_DELAY_MS", 2000, 100, 30_000)
    """Milliseconds before the first repetition; doubles with each."""
    max_wait_ms: int = _whole("HEALTH_CHECK_MAX_WAIT_TIME_MS", 300_000, 30_000, 1_800_000)
    """Milliseconds from the first check until the instance counts as unhealthy."""
    allow_private: bool = _flag("CORRAL_HEALTH_CHECK_ALLOW_PRIVATE", default=False)
    """Whether checks may connect to loopback, private and link-local addresses that the provider names.
    Loopback is always allowed while the provider itself is there, as the simulator is."""


class WebhookSettings(Group):
    """Where events are sent."""

    url: Annotated[str | None, _accepted(urls.is_address)] = _address(
        "WEBHOOK_URL", None, accepts="an http:// or https:// address", holds_token=True
    )
    """Receiver of every event of every instance that names none of its own. Unset: none."""
    format: WebhookFormat = _choice("WEBHOOK_FORMAT", WebhookFormat.STANDARD, tuple(WebhookFormat))
    """What the receiver at WEBHOOK_URL reads: the events as signed JSON, or messages for a channel of Slack or
    Discord. For an address in a request, `webhookFormat` says it."""
    secret: SecretStr | None = _secret("WEBHOOK_SECRET", accepts="text of at least 8 characters", least=8)
    """Signs webhooks; at least 8 characters, `whsec_...` is read as base64. Unset: unsigned."""
    timeout_ms: int = _whole("WEBHOOK_TIMEOUT", 10_000, 100, 300_000)
    """Milliseconds a receiver may take to answer."""
    allow_private: bool = _flag("CORRAL_WEBHOOK_ALLOW_PRIVATE", default=False)
    """Whether webhooks may go to loopback, private and link-local addresses."""

    @property
    def address(self) -> str | None:
        """The receiver with its format; None without one."""
        return None if self.url is None else receiver_address(self.url, self.format)


class CacheSettings(Group):
    """How long answers are reused."""

    timeout_seconds: int = _whole("CACHE_TIMEOUT", 300, 1, 86_400)
    """Seconds that products, and the best of them, are cached."""
    cleanup_interval_seconds: int = _whole("CACHE_CLEANUP_INTERVAL", 60, 1, 86_400)
    """Seconds between removals of expired values from all caches; until then they only take memory."""
    listing_ttl_seconds: int = _whole("COMPREHENSIVE_CACHE_TTL", 30, 0, 3600)
    """Seconds that the merged listing is cached. 0: never."""


class ListingSettings(Group):
    """The merged listing of Corral's and the provider's instances."""

    enabled: bool = _flag("ENABLE_COMPREHENSIVE_LISTING", default=True)
    """Whether `/api/instances/comprehensive` is served."""
    include_novita_only: bool = _flag("DEFAULT_INCLUDE_NOVITA_ONLY", default=True)
    """Default of its `includeNovitaOnly`: also list what only the provider knows."""
    sync_local_state: bool = _flag("DEFAULT_SYNC_LOCAL_STATE", default=False)
    """Default of its `syncLocalState`: record what was seen at the provider."""


class LogSettings(Group):
    """What is logged on standard output."""

    level: LogLevel = _choice("LOG_LEVEL", LogLevel.INFO, tuple(LogLevel))
    """Least important level that is logged."""


class TracingSettings(Group):
    """Traces for a collector of OpenTelemetry."""

    enabled: bool = _flag("CORRAL_TRACING", default=False)
    """Whether requests, what they cause and the calls to the provider are sent as traces; needs `corral[otel]`. Where
    to, and how many, say the variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_ENDPOINT, in the environment."""


class Settings(BaseModel):
    """All settings of one process. They form its configuration and never change while it runs."""

    model_config = ConfigDict(frozen=True)

    http: HttpSettings
    proxy_login: ProxyLoginSettings
    provider: ProviderSettings
    store: StoreSettings
    instances: InstanceSettings
    leases: LeaseSettings
    costs: CostSettings
    jobs: JobSettings
    health_checks: HealthCheckSettings
    webhooks: WebhookSettings
    caches: CacheSettings
    listing: ListingSettings
    log: LogSettings
    tracing: TracingSettings
