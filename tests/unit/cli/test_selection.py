"""Which instances filters choose."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.sdk_models import an_instance

from corral.cli.selection import Filters, duration
from corral.domain.errors import MalformedError
from corral_client import Instance

NOW = datetime(2030, 1, 10, tzinfo=UTC)


def olgas(**changes: object) -> Instance:
    fields = {"created_at": NOW - timedelta(days=3), "created_by": "olga", "labels": {"team": "vision", "env": ""}}
    return an_instance(**{**fields, **changes})


@pytest.mark.parametrize(
    ("filters", "accepted"),
    [
        (Filters(), True),
        (Filters(older_than="2d"), True),
        (Filters(older_than="3d"), False),
        (Filters(older_than="1w"), False),
        (Filters(owner="olga", older_than="2d12h"), True),
        (Filters(owner="lena"), False),
        (Filters(status=["failed", "ready"]), True),
        (Filters(status=["failed"]), False),
        (Filters(region="AS-SGP-02"), False),
        (Filters(name="web", region="CN-HK-01"), True),
        (Filters(name="we"), False),
        (Filters(label=["team=vision"]), True),
        (Filters(label=["team:vision", "env"]), True),
        (Filters(label=["team=vision", "env=prod"]), False),
        (Filters(label=["team"]), True),
        (Filters(label=["team="]), False),
        (Filters(label=["env="]), True),
        (Filters(label=["owner"]), False),
        (Filters(search="VISION"), True),
        (Filters(search="4090"), True),
        (Filters(search="h100"), False),
    ],
)
def test_an_instance_must_be_as_every_filter_says(filters: Filters, accepted: bool) -> None:  # noqa: FBT001
    """Also one that is exactly as old as asked is not older."""
    assert filters.accept(olgas(), NOW) is accepted


def test_what_is_gone_is_chosen_only_when_asked_for() -> None:
    """By its status, or with all the others."""
    gone = olgas(status="terminated")

    assert not Filters().accept(gone, NOW)
    assert Filters(gone=True).accept(gone, NOW)
    assert Filters(status=["terminated"]).accept(gone, NOW)
    assert not Filters(status=["active"], gone=True).accept(gone, NOW)
    assert Filters(status=["active"]).accept(olgas(), NOW)
    assert Filters(status=["stopped"]).accept(olgas(status="exited"), NOW)


@pytest.mark.parametrize("text", ["", "2", "d", "2y", "-2d", "2 d", "٢d", "2d;"])
def test_a_duration_that_cannot_be_read_is_refused_by_name(text: str) -> None:
    """Never taken for something else: it decides what is deleted."""
    with pytest.raises(MalformedError, match=r"--older-than: .* is no duration such as 30m, 12h, 2d or 1w"):
        duration(text, "--older-than")


def test_durations_add_up() -> None:
    """Units may be combined."""
    assert duration("1w2d3h4m5s", "-") == timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5)


@pytest.mark.parametrize("text", ["", "=vision", ":vision"])
def test_a_label_without_a_key_is_refused(text: str) -> None:
    """Never taken for any label: it decides what is deleted."""
    with pytest.raises(MalformedError, match="--label: give a key"):
        Filters(label=[text]).accept(olgas(), NOW)
