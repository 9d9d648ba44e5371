"""Models of the SDK with the fields that a test is not about."""

from __future__ import annotations

from datetime import UTC, datetime

from corral_client import Instance


def an_instance(**changes: object) -> Instance:
    """A ready instance named `web`, with *changes*."""
    fields: dict[str, object] = {
        "id": "inst_1",
        "name": "web",
        "status": "ready",
        "gpu_num": 1,
        "rootfs_size": 60,
        "region": "CN-HK-01",
        "product_name": "RTX 4090 24GB",
        "template_id": "1",
        "billing_mode": "spot",
        "created_at": datetime(2030, 1, 1, tzinfo=UTC),
    }
    return Instance(**{**fields, **changes})  # type: ignore[arg-type]  # the names are those of Instance
