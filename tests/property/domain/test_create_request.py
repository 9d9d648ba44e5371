"""Reading a create request: no input crashes it, every valid one is read correctly, all problems are reported."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.errors import FieldProblem
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.instance import CreateRequest
from corral.domain.placement.catalog import BillingMode
from corral.domain.requests.create import CreateDefaults, RequestedInstance, placement_request, read_create_request
from corral.domain.requests.health_check import read_health_check

DEFAULTS = CreateDefaults(
    region="CN-HK-01", regions=("AS-SGP-02", "CN-HK-01"), health=HealthCheckSpec(timeout_ms=1234, path="/up")
)
LEAST = {"name": "a", "productName": "RTX 4090 24GB", "templateId": "204511"}
FIELDS = (
    "name", "productName", "templateId", "gpuNum", "rootfsSize", "region", "regions", "billingMode", "spotFallback",
    "webhookUrl", "healthCheck", "maxPrice", "timeoutMs", "retryAttempts", "path", "targetPort", "stranger",
    "image", "imageAuthId", "command", "entrypoint", "env", "ports", "volumes", "minCuda", "id", "mount", "labels",
)  # fmt: skip

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300) | st.from_regex(r"[0-9.eE+-]+")
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=30,
)
words = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=40)
names = st.from_regex(r"[A-Za-z0-9_-]{1,100}", fullmatch=True)


def numeric(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[int | float | str]:
    """A number in any of the ways callers write it."""
    ways = (lambda n: n, str, lambda n: f" {n}.0 ", float)
    return st.tuples(numbers, st.sampled_from(ways)).map(lambda pair: pair[1](pair[0]))


def read(raw: object) -> CreateRequest:
    """The request in a valid body."""
    found = read_create_request(raw, DEFAULTS)
    assert isinstance(found, RequestedInstance)
    return found.request


def problems(raw: object) -> list[tuple[str, str]]:
    found = read_create_request(raw, DEFAULTS)
    assert not isinstance(found, RequestedInstance)
    return [(problem.field, problem.code) for problem in found]


@given(anything | st.dictionaries(st.sampled_from(FIELDS), anything))
def test_no_json_crashes_the_reader_and_every_problem_can_be_reported(raw: object) -> None:
    """Any input gives an order or a list of problems that can be encoded."""
    found = read_create_request(raw, DEFAULTS)

    if isinstance(found, RequestedInstance):
        assert msgspec.json.decode(msgspec.json.encode(found), type=RequestedInstance) == found
    else:
        assert found
        assert len({problem.field for problem in found}) == len(found)
        assert msgspec.json.encode([problem.value for problem in found if problem.shows_value])


@given(
    name=names,
    product=words,
    template=words | st.integers(1, 10**18),
    gpus=st.integers(1, 8),
    rootfs=st.integers(10, 1000),
    region=words | st.none(),
    mode=st.sampled_from(BillingMode),
    fallback=st.booleans(),
    cents=st.integers(1, 1_000_000),
    extra=st.dictionaries(st.text(max_size=5).filter(lambda word: word not in FIELDS), scalars, max_size=3),
)
def test_every_valid_order_is_read_as_it_was_meant(  # noqa: PLR0917  # Hypothesis calls it by name
    name: str,
    product: str,
    template: str | int,
    gpus: int,
    rootfs: int,
    region: str | None,
    mode: BillingMode,
    fallback: bool,  # noqa: FBT001
    cents: int,
    extra: dict[str, object],
) -> None:
    """What goes in comes out, under our names and in our units."""
    raw: dict[str, object] = {
        **extra,
        "name": name,
        "productName": f" {product} ",
        "templateId": template,
        "gpuNum": gpus,
        "rootfsSize": str(rootfs),
        "region": region,
        "billingMode": mode.value,
        "spotFallback": fallback,
        "maxPrice": str(Decimal(cents) / 100),
        "webhookUrl": "https://hooks.example/x",
    }
    found = read(raw)

    assert (found.name, found.product_name, found.template_id) == (name, product, str(template))
    assert (found.gpu_num, found.rootfs_gb) == (gpus, rootfs)
    assert (found.billing_mode, found.spot_fallback) == (mode, fallback)
    assert found.max_micro_usd_per_gpu == cents * 10_000
    assert found.regions[0] == (region or "CN-HK-01")
    assert found.webhook_url == "https://hooks.example/x"
    assert found.health == DEFAULTS.health
    assert placement_request(found).regions == found.regions


@given(numeric(st.integers(1, 8)))
def test_a_number_may_be_written_in_any_way(gpus: float | str) -> None:
    """Clients of the original send strings."""
    found = read({**LEAST, "gpuNum": gpus})

    assert found.gpu_num == int(float(gpus))


@pytest.mark.parametrize(
    "value",
    [
        True, False, 0, 9, -1, 1.5, "1.5", math.nan, math.inf, "NaN", "Infinity", "1e999", 10**400,
        "", " ", "eins", "\u0663", [], {}, "0x2",
    ],
)  # fmt: skip
def test_what_is_no_number_in_range_is_refused(value: object) -> None:
    """Not booleans, not NaN, not a fraction, not digits of another script."""
    assert problems({**LEAST, "gpuNum": value}) == [("gpuNum", "INVALID_GPU_NUM")]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(0, 0), ("0", 0), ("0s", 0), (90, 90), ("90", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), (" 24h ", 86400)],
)
def test_a_wait_is_seconds_or_a_short_text(written: object, seconds: int) -> None:
    """As people write durations."""
    found = read({**LEAST, "waitForCapacity": written})

    assert found.wait_for_capacity_seconds == seconds


@pytest.mark.parametrize("written", [-1, 86401, "25h", "1.5", 1.5, "", "h", "30m1h", "1 h", "1d", True, [], "99999h"])
def test_what_is_no_wait_of_up_to_a_day_is_refused(written: object) -> None:
    """An unintended wait would hold a request for hours."""
    assert problems({**LEAST, "waitForCapacity": written}) == [("waitForCapacity", "INVALID_WAIT_FOR_CAPACITY")]


def test_all_problems_are_reported_at_once() -> None:
    """Each field with a code of its own."""
    raw = {
        "name": "no spaces please",
        "productName": "",
        "templateId": -4,
        "gpuNum": 9,
        "rootfsSize": "5",
        "region": 7,
        "regions": [],
        "billingMode": "monthly",
        "spotFallback": "yes",
        "webhookUrl": 12,
        "healthCheck": {"timeoutMs": 1, "retryAttempts": 11, "path": "no slash", "targetPort": 0},
        "maxPrice": 0,
        "waitForCapacity": "2 days",
        "image": "two words",
        "imageAuthId": "",
        "command": "a\0b",
        "entrypoint": 7,
        "env": {"1": "x"},
        "ports": ["80/http", "80/tcp"],
        "volumes": [{"id": "ns-1", "mount": "data"}],
        "minCuda": 12.4,
    }

    assert sorted(problems(raw)) == sorted(
        [
            ("name", "INVALID_INSTANCE_NAME"),
            ("productName", "INVALID_PRODUCT_NAME"),
            ("templateId", "INVALID_TEMPLATE_ID"),
            ("gpuNum", "INVALID_GPU_NUM"),
            ("rootfsSize", "INVALID_ROOTFS_SIZE"),
            ("region", "INVALID_REGION"),
            ("regions", "INVALID_REGION"),
            ("billingMode", "INVALID_BILLING_MODE"),
            ("spotFallback", "INVALID_BILLING_MODE"),
            ("webhookUrl", "INVALID_WEBHOOK_URL"),
            ("healthCheck.timeoutMs", "INVALID_HEALTH_CHECK"),
            ("healthCheck.retryAttempts", "INVALID_HEALTH_CHECK"),
            ("healthCheck.path", "INVALID_HEALTH_CHECK"),
            ("healthCheck.targetPort", "INVALID_HEALTH_CHECK"),
            ("maxPrice", "INVALID_MAX_PRICE"),
            ("waitForCapacity", "INVALID_WAIT_FOR_CAPACITY"),
            ("image", "INVALID_IMAGE"),
            ("imageAuthId", "INVALID_IMAGE_AUTH_ID"),
            ("command", "INVALID_COMMAND"),
            ("entrypoint", "INVALID_ENTRYPOINT"),
            ("env", "INVALID_ENV"),
            ("ports", "INVALID_PORTS"),
            ("volumes", "INVALID_VOLUMES"),
            ("minCuda", "INVALID_MIN_CUDA"),
        ]
    )
    assert problems({}) == [
        ("name", "INVALID_INSTANCE_NAME"),
        ("productName", "INVALID_PRODUCT_NAME"),
        ("templateId", "INVALID_TEMPLATE_ID"),
    ]
    assert problems([]) == [("(body)", "VALIDATION_ERROR")]


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "line\nbreak", "\u202eevil"])
def test_text_that_cannot_be_stored_or_hides_something_is_refused(text: str) -> None:
    """PostgreSQL takes no NUL, and a reversed text is a trap for the reader of a list."""
    assert problems({**LEAST, "productName": text}) == [("productName", "INVALID_PRODUCT_NAME")]
    assert problems({**LEAST, "templateId": text}) == [("templateId", "INVALID_TEMPLATE_ID")]
    assert problems({**LEAST, "regions": [text]}) == [("regions", "INVALID_REGION")]


def test_what_may_be_secret_or_is_long_is_not_repeated() -> None:
    """An address may carry a token, and a megabyte need not be sent back."""
    raw = {**LEAST, "webhookUrl": ["https://u:p@h/"], "healthCheck": {"path": "token"}, "name": "x" * 5000}
    found: Any = read_create_request(raw, DEFAULTS)

    assert [(problem.field, problem.shows_value, problem.value) for problem in found] == [
        ("name", False, None),
        ("webhookUrl", False, None),
        ("healthCheck.path", False, None),
    ]


@pytest.mark.parametrize(
    ("said", "tried"),
    [
        ({}, ("CN-HK-01", "AS-SGP-02")),
        ({"region": "AS-SGP-02"}, ("AS-SGP-02", "CN-HK-01")),
        ({"region": "as-sgp-02"}, ("as-sgp-02", "CN-HK-01")),
        ({"region": "EU-1", "regions": ["EU-2", "EU-1"]}, ("EU-1", "EU-2")),
        ({"regions": ["EU-1"]}, ("EU-1",)),
        ({"region": "EU-1", "regions": ["EU-1"]}, ("EU-1",)),
    ],
)
def test_a_list_of_regions_replaces_the_priority_list(said: dict[str, object], tried: tuple[str, ...]) -> None:
    """The requested region alone means no fallback."""
    found = read({**LEAST, **said})

    assert found.regions == tried


def test_a_health_check_overrides_the_defaults_field_by_field() -> None:
    """What it leaves out stays as the settings say."""
    found = read_health_check({"retryAttempts": "0", "targetPort": 8080, "maxWaitTimeMs": None}, DEFAULTS.health)
    wrong = read_health_check({"timeoutMs": True}, DEFAULTS.health, name="healthCheckConfig")

    assert found == HealthCheckSpec(timeout_ms=1234, retry_attempts=0, target_port=8080, path="/up")
    assert wrong == (
        FieldProblem(
            field="healthCheckConfig.timeoutMs",
            code="INVALID_HEALTH_CHECK",
            message="must be a whole number between 1000 and 300000",
            value=True,
        ),
    )
