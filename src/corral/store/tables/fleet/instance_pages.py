"""Pages of the instances: ids and generations only, because readers keep the instances themselves by generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from corral.domain.instance import InstanceId, Labels
from corral.domain.lifecycle.phases import Phase
from corral.store.session.database import Connection

# What a text is searched in, a line each: what is searched for has one line. The product of rows that a process of an
# earlier release added is in the record only.
_CONTAINS = """strpos(lower(concat_ws(E'\n', name, id, region, created_by,
    coalesce(product_name, record -> 'order' ->> 'product_name'),
    (SELECT string_agg(key || ':' || value, E'\n') FROM jsonb_each_text(labels)))), lower({}::text)) > 0"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFilter:
    """Which instances are listed; None means all."""

    phases: Sequence[Phase] | None = None
    name: str | None = None
    region: str | None = None
    created_by: str | None = None
    labels: Labels = ()
    """The labels that each must have."""
    label_keys: tuple[str, ...] = ()
    """The labels that each must have, with any value."""
    text: str | None = None
    """One line, which must be part of its name, id, region, product, owner or one of its labels, in any case."""


async def page(
    connection: Connection, wanted: InstanceFilter, *, limit: int, offset: int, after: str | None = None
) -> tuple[dict[InstanceId, int], int]:
    """
    The generation of each instance of one page, newest first, and how many there are in all.

    The page begins after the instance with the id *after*, which must exist.
    """
    query, arguments = statement(wanted, limit=limit, offset=offset, after=after)
    rows = await connection.fetch(query, *arguments)
    return {InstanceId(row["id"]): row["generation"] for row in rows if row["id"] is not None}, rows[0]["total"]


def statement(wanted: InstanceFilter, *, limit: int, offset: int, after: str | None) -> tuple[str, list[object]]:
    """
    The query of one page, and its arguments.

    It has only the conditions that are given: PostgreSQL uses no index for one that an argument may switch off.
    """
    arguments: list[object] = []

    def given(value: object) -> str:
        arguments.append(value)
        return f"${len(arguments)}"

    conditions = [condition.format(given(value)) for condition, value in _conditions(wanted)]
    selected = f"FROM corral_instances WHERE {' AND '.join(conditions or ['true'])}"
    behind = "" if after is None else _BEHIND.format(given(after))
    # One row without an id for a page that is empty, so that the total is known there too.
    query = f"""
SELECT total, page.id, page.generation FROM (SELECT count(*) AS total {selected}) AS counted
LEFT JOIN (
    SELECT id, generation, created_at {selected} {behind}
    ORDER BY created_at DESC, id LIMIT {given(limit)} OFFSET {given(offset)}
) AS page ON true
ORDER BY page.created_at DESC, page.id
"""  # noqa: S608  # constants, and the numbers of arguments
    return query, arguments


# A page after an instance starts in the index, however far behind the first that is; the total does not depend on it.
_LAST = "(SELECT created_at FROM corral_instances WHERE id = {0})"
_BEHIND = f"AND created_at <= {_LAST} AND (id > {{0}} OR created_at < {_LAST})"


def _conditions(wanted: InstanceFilter) -> list[tuple[str, object]]:
    """The conditions that are given, each with its argument."""
    phases = None if wanted.phases is None else list(wanted.phases)
    every: list[tuple[str, object]] = [
        ("phase = ANY({}::text[])", phases),
        ("name = {}::text", wanted.name),
        ("region = {}::text", wanted.region),
        ("created_by = {}::text", wanted.created_by),
        *(("labels @> {}::jsonb", msgspec.json.encode({key: value}).decode()) for key, value in wanted.labels),
        ("labels ?& {}::text[]", list(wanted.label_keys) or None),
        (_CONTAINS, wanted.text),
    ]
    return [(condition, value) for condition, value in every if value is not None]


async def generations(connection: Connection, ids: Sequence[InstanceId]) -> dict[InstanceId, int]:
    """The generation of each instance with one of *ids*, newest first."""
    rows = await connection.fetch(
        "SELECT id, generation FROM corral_instances WHERE id = ANY($1) ORDER BY created_at DESC, id", list(ids)
    )
    return {InstanceId(row["id"]): row["generation"] for row in rows}
