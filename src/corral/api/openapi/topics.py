"""
The topics of the API and the order of its routes, for people who read the document from the top.

A route that `FIRST` does not name comes after those of its topic that it names, in the order of the paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TOPICS: Final[Mapping[str, tuple[str, str]]] = {
    "instances": (
        "Instances",
        "Create, find, stop, start and delete them. A create returns at once; the instance is usable when `ready`.",
    ),
    "catalog": (
        "Products, templates and volumes",
        "What can be ordered now, at what price and where, with which image and storage.",
    ),
    "machines": ("Machines", "Log in to the machine of an instance, read its logs, and see how busy it is."),
    "operations": ("Operations", "The progress of one command on an instance, step by step."),
    "events": ("Events", "Everything that happened, in order: page by page, or as it happens."),
    "webhooks": ("Webhooks", "What was sent to webhook receivers, with every attempt, and sending it again."),
    "metrics": ("Fleet", "How many instances there are, what they cost an hour, and how long they took to be ready."),
    "costs": (
        "Costs and budgets",
        "What usage cost, by instance, key, product, region, cause, day or label; and limits on it.",
    ),
    "keys": ("Keys", "API keys, their roles, and the caller of a request."),
    "audit": ("Audit", "Who changed what: one line for each request that changes something."),
    "jobs": ("Jobs", "The work in the background, for operators."),
    "caches": ("Caches", "What each process remembers of the provider's catalog, for operators."),
    "settings": ("Settings", "The settings in effect."),
    "health": ("Health", "For load balancers, orchestrators and Prometheus."),
}
"""Tag → the name shown, and the description. The order is that of the document."""

FIRST: Final = (
    "createInstance",
    "listInstances",
    "getInstance",
    "startInstance",
    "stopInstance",
    "restartInstance",
    "deleteInstance",
    "extendLease",
    "changeLease",
    "reportUse",
    "labelInstance",
    "startNamedInstance",
    "stopNamedInstance",
    "deleteNamedInstance",
    "stopAllInstances",
    "getAutoStopStats",
    "triggerAutoStop",
    "listAllInstances",
    "syncInstances",
    "listOrphans",
    "adoptInstance",
    "getCredentials",
    "getLogs",
    "getImagePull",
    "getInstanceMetrics",
    "getUtilization",
    "getOptimalProduct",
    "listProducts",
    "getOperation",
    "listEvents",
    "streamEvents",
)
"""Operations in the order in which they are needed."""


def in_order(found: dict[str, Any]) -> None:
    """Sort the routes of the document by topic, and list the topics that it uses."""
    ranks = {name: place for place, name in enumerate([*TOPICS])}
    used = {tag for item in found["paths"].values() for operation in item.values() for tag in operation["tags"]}

    def place(path: str) -> tuple[int, int, str]:
        operations = found["paths"][path].values()
        topic = min(ranks.get(operation["tags"][0], len(ranks)) for operation in operations)
        named = [FIRST.index(o["operationId"]) for o in operations if o["operationId"] in FIRST]
        return topic, min(named, default=len(FIRST)), path

    def of_path(item: Mapping[str, Any]) -> dict[str, Any]:
        listed = {name: place for place, name in enumerate(FIRST)}
        return dict(sorted(item.items(), key=lambda pair: listed.get(pair[1]["operationId"], len(listed))))

    found["paths"] = {path: of_path(found["paths"][path]) for path in sorted(found["paths"], key=place)}
    found["tags"] = [
        {"name": name, "description": meaning, "x-displayName": shown}
        for name, (shown, meaning) in TOPICS.items()
        if name in used
    ]
