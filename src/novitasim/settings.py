"""
Everything about the provider that is a guess, a choice or a mood: one field each, with its meaning.

The fact sheet marks what is not known outside the provider. Each such point is a setting here and the default is the
likeliest reading, so that a client can be tried against every reading. Settings are values: changing one makes a new
`Settings`. Start with `--quirk name=value`, or send `POST /_sim/settings`.
"""

from __future__ import annotations

# ruff: noqa: RUF009  # `setting` makes a dataclass field; its defaults are immutable
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from novitasim import accepts
from novitasim.accepts import Accepts, Span, choice, one_of, seconds, setting, span, text, whole, yes_no
from novitasim.answer_settings import AnswerSettings


class SettingError(ValueError):
    """A setting's name or value was not accepted; the message says what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(AnswerSettings):
    """How this provider behaves."""

    # Time
    boot_seconds: Span = setting(Span(0.5, 1.0), span(), "toCreate and creating together")
    pull_seconds: Span = setting(Span(0.5, 2.0), span(), "pulling, before running; billed")
    start_seconds: Span = setting(Span(0.5, 1.5), span(), "toStart and starting together")
    stop_seconds: Span = setting(Span(0.5, 1.0), span(), "toStop and stopping together; billed")
    restart_seconds: Span = setting(Span(0.5, 1.5), span(), "toRestart and restarting together; billed")
    remove_seconds: Span = setting(Span(0.5, 1.0), span(), "toRemove and removing together")
    migrate_seconds: Span = setting(Span(1.0, 2.0), span(), "migrating")
    reset_seconds: Span = setting(Span(0.5, 1.0), span(), "toReset and resetting together, before pulling")
    job_seconds: Span = setting(Span(2.0, 2.0), span(), "a saveImage job, until it succeeds")
    list_lag_seconds: float = setting(0.0, seconds(), "a new instance is missing in the list for so long")
    get_lag_seconds: float = setting(0.0, seconds(), "a new instance is not found by get for so long")
    removed_seen_seconds: float = setting(2.0, seconds(), "get still answers `removed` for so long, then not found")

    # Lists
    page_base: int = setting(0, whole(0, 1), "pageNum of the first page of instances and jobs")
    template_page_base: int = setting(0, whole(0, 1), "pageNum of the first page of templates")
    storage_page_base: int = setting(0, whole(0, 1), "pageNo of the first page of network storages")
    page_size_default: int = setting(100, whole(1), "page size when none is asked for")
    page_size_cap: int = setting(100, whole(0), "largest page given, whatever is asked; 0 = no cap")
    list_needs_paging: bool = setting(False, yes_no(), "listing without pageSize and pageNum is refused")
    list_order: str = setting("newest", choice("newest", "oldest"), "which instance the list begins with")
    list_shows: str = setting(
        "all",
        choice("all", "half", "nothing"),
        "what a list that lies shows: everything, every second instance, or none, with a `total` to match",
    )
    list_age_seconds: float = setting(0.0, seconds(), "the list shows the account as it was so long ago")
    removed_stay_listed: bool = setting(False, yes_no(), "removed instances stay in the list as `removed`")
    name_filter: str = setting(
        "contains",
        choice("contains", "prefix", "exact", "ignored", "nothing"),
        "how the list reads `name`: names that contain it, begin with it or equal it; all names; or no name ever fits",
    )
    endpoint_in_list: bool = setting(True, yes_no(), "portMappings of the list carry `endpoint`")
    extras_in_list: bool = setting(True, yes_no(), "the list carries createdAt, lastStartedAt, lastStoppedAt")
    templates_need_channel: bool = setting(False, yes_no(), "listing templates without channel is refused")

    # Shapes
    price_type: str = setting("string", choice("string", "number"), "JSON type of a product's price")
    cpu_products_wrapped: bool = setting(True, yes_no(), 'CPU products come as {"data": [...]}, not as a bare array')
    region_names: str = setting(
        "place",
        choice("place", "short", "id", "empty"),
        "regions of a product: `US-CA-06 (California)`, `US-CA-06`, `us-ca-6`, or none, which means everywhere",
    )
    endpoints_when_down: str = setting(
        "empty", choice("empty", "absent", "kept"), "endpoint of a port while the instance is not running"
    )
    endpoint_changes_on_start: bool = setting(False, yes_no(), "every start gives new endpoints; old ones go dead")
    extras_in_get: bool = setting(True, yes_no(), "get carries productId, productName, rootfsSize, createdAt and such")
    spot_in_get: bool = setting(True, yes_no(), "get carries spotStatus and spotReclaimTime")
    billing_mode_early: str = setting(
        "shown", choice("shown", "empty"), "billingMode before the image is pulled: the mode, or an empty text"
    )
    node_shape: str = setting("object", choice("object", "array"), "JSON shape of `node` in get")
    volume_size_in_get: str = setting("number", choice("number", "string"), "JSON type of a volume's size in get")
    error_metadata: bool = setting(True, yes_no(), "error bodies carry an empty `metadata`")
    start_stop_answer: str = setting(
        "pair", choice("pair", "object", "empty"), "start and stop answer {instanceId, state}, {} or no body"
    )
    act_answer: str = setting(
        "object", choice("pair", "object", "empty"), "the same for restart, delete, edit, upgrade, renew and so on"
    )
    migrate_answer: str = setting(
        "ids", choice("ids", "object", "empty"), "migrate answers {instanceId, newInstanceId}, {} or no body"
    )
    storage_create_answer: str = setting(
        "string", choice("string", "object"), "networkstorage/create answers the bare id or the storage"
    )
    auth_save_answer: str = setting("object", choice("object", "no_content"), "repository/auth/save: {} or 204")
    networks_key: str = setting("network", choice("network", "networks"), "key of the array in the list of networks")
    network_create_answer: str = setting(
        "object", choice("object", "empty"), "network/create answers the network or {}"
    )

    # Refusals
    not_found_status: int = setting(400, one_of(400, 404), "HTTP status of not found")
    not_found_words: str = setting("not found", choice("not found", "not fount"), "how the message spells it")
    bad_key_status: int = setting(401, one_of(401, 403), "401 UNAUTHORIZED or 403 INVALID_API_KEY")
    invalid_state_reason: str = setting(
        "CONFLICT", choice("CONFLICT", "REQUEST", "OPERATION_LIMIT"), "reason of `invalid state change`"
    )
    unknown_product_reason: str = setting(
        "VALIDATOR_PARAM", choice("VALIDATOR_PARAM", "RESOURCE_NOT_FOUND"), "reason for an unknown productId"
    )
    no_money_reason: str = setting(
        "BALANCE_NOT_ENOUGH",
        choice("BALANCE_NOT_ENOUGH", "CREATE_INSTANCE_LIMIT", "EXPIRED_OR_BALANCE_NOT_ENOUGH"),
        "reason when the balance is used up",
    )
    retry_after: str = setting("none", choice("none", "seconds", "date"), "form of Retry-After on a 429")
    rate_limit_per_minute: int = setting(0, whole(0), "calls in any sliding minute before 429; 0 = no limit")
    image_auth_id: str = setting("accepted", choice("accepted", "refused"), "whether create takes imageAuthId")
    names_unique: bool = setting(False, yes_no(), "create refuses a name that a living instance has (CONFLICT)")
    strict_names: bool = setting(False, yes_no(), "create refuses names with other than letters, digits, hyphens")
    ports_limit: int = setting(15, whole(0), "ports and tools together, at most")
    storage_elsewhere_reason: str = setting(
        "NETWORK_STORAGE_UNAVAILABLE",
        choice("NETWORK_STORAGE_UNAVAILABLE", "CUR_CLUSTER_NETWORK_STORAGE_NOT_SUPPORT", "NETWORK_STORAGE_NOT_FOUND"),
        "reason for a network storage of another cluster; which of the documented ones is unknown",
    )
    storage_sharing: str = setting(
        "allowed", choice("allowed", "refused"), "several living instances on one network storage; unknown"
    )
    storage_chooses_cluster: bool = setting(
        True,
        yes_no(),
        "create without clusterId goes to the cluster of its network storage, else to any; unknown",
    )
    monthly_release: str = setting("refused", choice("refused", "allowed"), "deleting a monthly instance")
    browser_check: bool = setting(True, yes_no(), "the front refuses Python-urllib's User-Agent with a 403 page")

    # Money and stock
    balance_usd: int = setting(0, whole(0), "money of the account at the start; 0 = it never ends")
    instance_limit: int = setting(0, whole(0), "living instances before CREATE_INSTANCE_LIMIT; 0 = no limit")
    stock: int = setting(64, whole(0), "GPUs of each product in each of its clusters")
    spot_create: str = setting(
        "accepted",
        choice("accepted", "INSUFFICIENT_RESOURCE", "UNSUPPORTED_BILLING_MODE"),
        "whether create takes spot, or the reason it refuses it with although the catalog offers it",
    )
    weather: str = setting(
        "calm", choice("calm", "changing", "stormy"), "stock comes and goes by the minute: never, somewhat, much"
    )
    max_cuda: str = setting("12.8", text("such as 12.8", r"\d+\.\d+"), "a higher minCudaVersion finds no machine")

    # Life
    id_length: int = setting(16, whole(8, 32), "hex digits of an instance id")
    pending_first: bool = setting(False, yes_no(), "a new instance is `pending` before it is toCreate")
    failed_status: str = setting(
        "creating", choice("creating", "pulling", "exited"), "status shown beside the statusError of a failed creation"
    )
    migrate_keeps_id: bool = setting(True, yes_no(), "a migrated instance keeps its id")
    migrate_from: str = setting("any", choice("any", "exited", "running"), "statuses in which migrate is allowed")
    migrate_keeps_spot: bool = setting(True, yes_no(), "a migrated spot instance stays spot, else it is onDemand")
    migrate_with_storage: str = setting(
        "same_cluster",
        choice("same_cluster", "refused", "anywhere"),
        "migrate of an instance with network storages: stays in its cluster, is refused, or loses them; unknown",
    )
    spot_end: str = setting("exited", choice("exited", "removed"), "where a reclaimed spot instance ends")
    spot_reclaim_time: str = setting(
        "deadline",
        choice("deadline", "notice"),
        "what spotReclaimTime says: when it ends, or when notice was given",
    )
    spot_notice_seconds: float = setting(3600.0, seconds(), "from notice to reclaim")
    spot_life_seconds: Span = setting(
        Span(0.0, 0.0), span(), "from running to notice for every spot instance; 0 = only by a fault"
    )
    start_after_reclaim: str = setting("allowed", choice("allowed", "refused"), "start of a reclaimed spot instance")

    # Data of stopped instances
    keep_data_days: int = setting(7, whole(0), "keepDataDay: a stopped instance's data is kept so long; 0 = for ever")
    data_purged: str = setting(
        "removed",
        choice("removed", "exited"),
        "an instance whose data is purged is removed, or stays exited and its start is refused; unknown",
    )
    release_data_at: str = setting(
        "seconds",
        choice("seconds", "milliseconds", "iso", "absent"),
        "how list and get write releaseDataAt, when the data is purged; undocumented",
    )
    release_data_up: str = setting(
        "zero",
        choice("zero", "empty", "absent", "kept"),
        "releaseDataAt of an instance that is not stopped: 0, an empty text, missing, or as at its last stop; unknown",
    )

    # Workloads
    guest_mode: str = setting(
        "shared",
        choice("shared", "own_port", "localhost", "realistic", "off"),
        "how endpoints look and whether they answer",
    )
    guest: str = setting("healthy", accepts.guest(), "how workloads answer without SIM_GUEST or a rule")
    guest_rules: str = setting("", accepts.guest_rules(), "the same by instance name; the first match counts")
    ssh: str = setting(
        "greeting", choice("greeting", "server", "none"), "port 22 only greets, is a real ssh server, or is not offered"
    )
    ssh_listeners: int = setting(256, whole(0), "instances that have an ssh server at a time; the others only greet")
    ssh_port_changes: bool = setting(False, yes_no(), "every start and restart gives another ssh port; unknown")
    ssh_host_key: str = setting(
        "kept", choice("kept", "new"), "host key after a start or restart: the same or another; unknown"
    )

    # Logs
    log_stream: str = setting("normal", accepts.log_stream(), "how log streams behave without SIM_LOG")
    log_offered: str = setting(
        "created", choice("created", "running"), "get shows log addresses from toCreate on, or only while running"
    )
    log_follow_default: bool = setting(True, yes_no(), "a log stream without `follow` stays open; unknown")
    log_sse_default: bool = setting(False, yes_no(), "a log stream without `sse` is server-sent events; unknown")
    log_timestamps: bool = setting(False, yes_no(), "log lines begin with their time; unknown")
    log_auth: str = setting("none", choice("none", "bearer"), "what a log address asks for; unknown")
    log_interval_seconds: float = setting(10.0, seconds(), "a running program writes a line so often; 0 = never")
    log_kept_lines: int = setting(5000, whole(1), "lines that a log keeps; unknown")

    # Metrics
    load: str = setting("varying", accepts.load(), "percent of every series that no control call set")
    metrics_late_seconds: float = setting(60.0, seconds(), "samples are shown so late; about a minute is documented")
    metrics_window_seconds: float = setting(60.0, seconds(), "metrics without startTime begin so long ago")
    metrics_gaps: int = setting(0, whole(0, 100), "percent of samples that are missing; whether any are is unknown")
    metrics_fault: str = setting(
        "normal",
        choice("normal", "none", "zeros", "stale", "repeated"),
        "samples of instances whose samples no control call set: see Metrics above",
    )
    metrics_stale_seconds: float = setting(600.0, seconds(), "with `metrics_fault`: age of the newest sample if stale")
    metrics_when_down: str = setting(
        "absent", choice("absent", "zero"), "samples of an instance that is not running; unknown"
    )
    metrics_unit: str = setting("percent", choice("percent", "fraction"), "unit of samples: 0-100 or 0-1; unknown")
    metrics_empty: str = setting(
        "list", choice("list", "absent"), "series without samples: an empty array, or missing; unknown"
    )


def fields() -> dict[str, tuple[Accepts, str, object]]:
    """Every setting: what it accepts, what it means, its default; those of answers and the bill come last."""
    last = {field.name for field in dataclasses.fields(AnswerSettings)}
    return {
        field.name: (cast("Accepts", field.metadata["accepts"]), str(field.metadata["means"]), field.default)
        for field in sorted(dataclasses.fields(Settings), key=lambda field: field.name in last)
    }


def changed(settings: Settings, raw: Mapping[str, object]) -> Settings:
    """The settings with *raw* names and values put in; raises SettingError and changes nothing if one is wrong."""
    known = fields()
    values: dict[str, Any] = {}
    for name, value in raw.items():
        if name not in known:
            raise SettingError(f"no setting is called {name!r}; there are: {', '.join(sorted(known))}")
        accepts, _, _ = known[name]
        try:
            values[name] = accepts.read(value)
        except (ValueError, OverflowError) as error:
            raise SettingError(f"{name} cannot be {value!r}; accepted: {accepts.words}") from error
    return dataclasses.replace(settings, **values)


def parse(pairs: list[str]) -> dict[str, object]:
    """The `name=value` pairs of a command line, unread; raises SettingError for one without an equals sign."""
    raw: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingError(f"{pair!r} is not name=value")
        raw[name.strip()] = value
    return raw


def shown(value: object) -> object:
    """A setting's value as JSON shows it and `changed` reads it back."""
    return str(value) if isinstance(value, Span) else value


def overrides(settings: Settings) -> dict[str, object]:
    """The settings that differ from their defaults."""
    return {
        name: shown(getattr(settings, name))
        for name, (_, _, default) in fields().items()
        if getattr(settings, name) != default
    }
