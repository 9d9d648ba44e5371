"""The Grafana dashboard, from a table of panels: `make docs` writes docs/grafana/corral.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import Any

WIDTH, HEIGHT = 8, 8
COLUMNS = 24 // WIDTH
SELECTED = '{job=~"$job"}'


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One graph: what it shows, by which queries (legend → expression), in which unit."""

    title: str
    shows: str
    queries: dict[str, str]
    unit: str = "short"
    stacked: bool = False


def _fleet(name: str, by: str | None = None) -> str:
    """A metric that every process reports alike: the maximum, so that processes are not added up."""
    return f"max{f' by ({by})' if by else ''} ({name}{SELECTED})"


def _rate(name: str, by: str) -> str:
    return f"sum by ({by}) (rate({name}{SELECTED}[$__rate_interval]))"


def _quantile(share: float, name: str, by: str = "le") -> str:
    return f"histogram_quantile({share}, sum by ({by}) (rate({name}_bucket{SELECTED}[$__rate_interval])))"


def _quantiles(name: str) -> dict[str, str]:
    return {"half within": _quantile(0.5, name), "nine in ten within": _quantile(0.9, name)}


def _hit_ratio() -> str:
    hits, misses = _rate("corral_cache_hits_total", "cache"), _rate("corral_cache_misses_total", "cache")
    return f"{hits} / ({hits} + {misses})"


ROWS: dict[str, list[Panel]] = {
    "Fleet": [
        Panel(
            title="Instances by status",
            shows="All but terminated ones.",
            queries={"{{status}}": 'max by (status) (corral_instances{job=~"$job", status!="terminated"})'},
            stacked=True,
        ),
        Panel(
            title="Cost an hour",
            shows="The cost of all running instances.",
            queries={"USD an hour": _fleet("corral_usd_per_hour")},
            unit="currencyUSD",
        ),
        Panel(
            title="Time to ready",
            shows="From the create request to ready.",
            queries=_quantiles("corral_time_to_ready_seconds"),
            unit="s",
        ),
        Panel(
            title="Readiness lag",
            shows="From the provider's first report of running to ready: Corral's own part of the wait.",
            queries=_quantiles("corral_readiness_lag_seconds"),
            unit="s",
        ),
        Panel(
            title="Transitions",
            shows="What instances entered.",
            queries={"{{to}}": _rate("corral_transitions_total", "to")},
            unit="ops",
        ),
        Panel(
            title="Events",
            shows="Events of instances.",
            queries={"{{event}}": _rate("corral_events_total", "event")},
            unit="ops",
        ),
    ],
    "Provider": [
        Panel(
            title="Calls by outcome",
            shows="`may_have_happened` is what creates are looked up for.",
            queries={"{{outcome}}": _rate("corral_provider_calls_total", "outcome")},
            unit="ops",
        ),
        Panel(
            title="Time to answer",
            shows="Nine in ten calls answered within, by endpoint.",
            queries={"{{endpoint}}": _quantile(0.9, "corral_provider_call_seconds", "le, endpoint")},
            unit="s",
        ),
        Panel(
            title="Budget",
            shows="Calls a minute: what may be asked, and what was.",
            queries={
                "allowed": _fleet("corral_provider_budget_per_minute"),
                "asked": _fleet("corral_provider_calls_last_minute"),
            },
        ),
        Panel(
            title="Breaker",
            shows="Processes by the state of their circuit breaker; anything but CLOSED is a problem.",
            queries={"{{state}}": f"sum by (state) (corral_provider_breaker_state{SELECTED})"},
        ),
        Panel(
            title="Age of the last listing",
            shows="How long ago the whole account was last listed; grows while no leader lists it.",
            queries={"age": _fleet("corral_last_look_age_seconds")},
            unit="s",
        ),
        Panel(
            title="Repeated and refused",
            shows="Repeated calls, and calls that the rate limit refused.",
            queries={
                "repeated {{endpoint}}": _rate("corral_provider_retries_total", "endpoint"),
                "refused": f"sum (rate(corral_provider_permits_refused_total{SELECTED}[$__rate_interval]))",
            },
            unit="ops",
        ),
    ],
    "Work": [
        Panel(
            title="Queue age",
            shows="How long the oldest job that is due has waited.",
            queries={"oldest": _fleet("corral_queue_oldest_pending_seconds")},
            unit="s",
        ),
        Panel(
            title="Jobs waiting",
            shows="Not finished, by status.",
            queries={"{{status}}": _fleet("corral_jobs_waiting", "status")},
        ),
        Panel(
            title="Job runs",
            shows="`postponed` is a requeue, not a failure.",
            queries={"{{type}} {{outcome}}": _rate("corral_jobs_total", "type, outcome")},
            unit="ops",
        ),
        Panel(
            title="Reconciles",
            shows="How reconciles of instances ended.",
            queries={"{{outcome}}": _rate("corral_passes_total", "outcome")},
            unit="ops",
        ),
        Panel(
            title="Actions that failed",
            shows="Provider calls of reconciles that failed.",
            queries={
                "{{action}}": "sum by (action) (rate("
                'corral_actions_total{job=~"$job", outcome="failed"}[$__rate_interval]))'
            },
            unit="ops",
        ),
        Panel(
            title="Listings of the account",
            shows="How listings of the whole account ended.",
            queries={"{{outcome}}": _rate("corral_looks_total", "outcome")},
            unit="ops",
        ),
    ],
    "Webhooks, requests, caches": [
        Panel(
            title="Outbox",
            shows="Webhook messages that are pending, and those that failed within a day.",
            queries={
                "pending": _fleet("corral_webhooks_pending"),
                "failed": _fleet("corral_webhooks_failed_last_day"),
            },
        ),
        Panel(
            title="Outbox age",
            shows="How old the oldest pending message is.",
            queries={"oldest": _fleet("corral_outbox_oldest_pending_seconds")},
            unit="s",
        ),
        Panel(
            title="Webhook attempts",
            shows="By outcome.",
            queries={"{{fate}}": _rate("corral_webhook_attempts_total", "fate")},
            unit="ops",
        ),
        Panel(
            title="Requests",
            shows="Answers of the API by status.",
            queries={"{{status}}": _rate("corral_http_requests_total", "status")},
            unit="reqps",
        ),
        Panel(
            title="Time to answer a request",
            shows="99 in 100 answered within, by route.",
            queries={"{{route}}": _quantile(0.99, "corral_http_request_seconds", "le, route")},
            unit="s",
        ),
        Panel(
            title="Caches",
            shows="Share of questions answered at once.",
            queries={"{{cache}}": _hit_ratio()},
            unit="percentunit",
        ),
        Panel(
            title="Event streams",
            shows="Clients that follow the event stream.",
            queries={"{{instance}}": f"corral_event_streams{SELECTED}"},
        ),
        Panel(
            title="Database",
            shows="1 while it answers, by process.",
            queries={"{{instance}}": f"corral_database_up{SELECTED}"},
        ),
    ],
}


def dashboard() -> str:
    """The file Grafana imports."""
    numbers, panels, top = count(1), list[dict[str, Any]](), 0
    for row, drawn in ROWS.items():
        panels.append(
            {
                "id": next(numbers),
                "type": "row",
                "title": row,
                "collapsed": False,
                "gridPos": {"h": 1, "w": 24, "x": 0, "y": top},
                "panels": [],
            }
        )
        for place, panel in enumerate(drawn):
            at = {"x": place % COLUMNS * WIDTH, "y": top + 1 + place // COLUMNS * HEIGHT}
            panels.append(_drawn(panel, next(numbers), at))
        top += 1 + -(-len(drawn) // COLUMNS) * HEIGHT
    return json.dumps(_around(panels), indent=1, sort_keys=True) + "\n"


def _drawn(panel: Panel, number: int, at: dict[str, int]) -> dict[str, Any]:
    custom = {"drawStyle": "line", "fillOpacity": 10, "showPoints": "never"}
    custom |= {"stacking": {"mode": "normal", "group": "A"}} if panel.stacked else {}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.shows,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"h": HEIGHT, "w": WIDTH, **at},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": expression, "legendFormat": legend}
            for place, (legend, expression) in enumerate(panel.queries.items())
        ],
    }


def _around(panels: list[dict[str, Any]]) -> dict[str, Any]:
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    job = {
        "name": "job",
        "type": "query",
        "label": "Job",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": "label_values(corral_database_up, job)",
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }
    return {
        "uid": "corral",
        "title": "Corral",
        "tags": ["corral"],
        "description": "GPU instances on novita.ai: what runs, what it costs, how soon it is ready, and what is wrong.",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, job]},
        "panels": panels,
    }
