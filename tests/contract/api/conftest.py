"""The API of these tests: served from a database of their own, without a provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.http.served_api import ServedApi, opened

from corral.store.session.database import Database


@pytest.fixture
async def api(database: Database) -> AsyncGenerator[ServedApi]:
    async with opened(database) as api:
        yield api
