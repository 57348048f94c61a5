"""A store for tests of access."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from access_objects import opened
from pykubelet.apiserver.storage.durable_store import DurableStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[DurableStore]:
    async with opened(tmp_path) as store:
        yield store
