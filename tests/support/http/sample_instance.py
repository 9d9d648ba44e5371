"""An instance as the service answers it, for tests of clients."""

from __future__ import annotations

from typing import Any, Final

SAMPLE: Final[dict[str, Any]] = {
    "id": "inst_1",
    "name": "train",
    "status": "ready",
    "gpuNum": 1,
    "rootfsSize": 60,
    "region": "CN-HK-01",
    "productName": "RTX 4090 24GB",
    "templateId": "1",
    "billingMode": "spot",
    "createdAt": "2030-01-01T00:00:00Z",
}
