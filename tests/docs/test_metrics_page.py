"""Every metric of a running service is documented, and every metric in dashboards and alerts exists."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from support.processes.process import serving

ROOT = Path(__file__).parents[2]
UNITS = {"counter": "_total", "gauge": "", "histogram": ""}


@pytest.fixture(scope="module")
def scraped(short_dir: Path) -> Mapping[str, Metric]:
    """The metrics of a service, by the name of the family."""

    async def scrape() -> str:
        async with serving(short_dir / "scraped" / ".corral") as corral:
            await corral.ask("GET", "/api/products")
            return (await corral.ask("GET", "/metrics")).body.decode()

    families = text_string_to_metric_families(asyncio.run(scrape()))
    return {f.name + UNITS[f.type]: f for f in families if not f.name.endswith("_created")}


def names_in(text: str) -> set[str]:
    """Every metric a text names, without the endings of a histogram's parts."""
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"\bcorral_[a-z_]+", text)}


def test_the_page_lists_the_metrics_of_a_service(scraped: Mapping[str, Metric]) -> None:
    """With its kind and its meaning, as Prometheus hears them."""
    page = (ROOT / "docs/reference/metrics.md").read_text()
    rows = re.findall(r"^\| `(corral_\w+)` \| (\w+) \| .*? \| (.+) \|$", page, re.MULTILINE)

    assert sorted(rows) == sorted((name, f.type, f.documentation) for name, f in scraped.items())


def test_labels_are_words_of_the_tables(scraped: Mapping[str, Metric]) -> None:
    """Documented, and never an id."""
    page = (ROOT / "docs/reference/metrics.md").read_text()
    for name, family in scraped.items():
        [row] = re.findall(rf"^\| `{name}` \| \w+ \| (.*?) \|", page, re.MULTILINE)
        labels = set().union(*(s.labels for s in family.samples)) - {"le"}
        assert labels <= set(re.findall(r"`(\w+)`", row)), name
        values = {value for s in family.samples for value in s.labels.values()}
        assert not [value for value in values if re.search(r"(inst|op|evt|dlv|job|req)_[0-9a-z]{6}", value)], name


def test_every_type_of_job_has_its_numbers(scraped: Mapping[str, Metric]) -> None:
    """Before the first of them ran."""
    types = {sample.labels["type"] for sample in scraped["corral_jobs_total"].samples}

    assert types >= {"create_instance", "monitor_instance", "send_webhook"}


def test_the_dashboard_draws_only_what_there_is(scraped: Mapping[str, Metric]) -> None:
    """A panel without data is a lie about the service."""
    board: dict[str, Any] = msgspec.json.decode((ROOT / "docs/grafana/corral.json").read_bytes())
    queries = {p["title"]: [t["expr"] for t in p["targets"]] for p in board["panels"] if p["type"] != "row"}

    assert len(queries) > 20
    for title, expressions in queries.items():
        assert all(names_in(expression) for expression in expressions), title
        assert names_in(" ".join(expressions)) <= set(scraped), title


def test_the_how_to_names_only_what_there_is(scraped: Mapping[str, Metric]) -> None:
    """Its alerts would otherwise never fire."""
    assert names_in((ROOT / "docs/how-to/metrics.md").read_text()) <= set(scraped)
