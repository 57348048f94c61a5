"""A store for tests of access, and a server for tests of handlers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from access_objects import opened
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.testing.local_api import local_api
from verb_requests import Asker


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[DurableStore]:
    async with opened(tmp_path) as store:
        yield store


@pytest.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    async with local_api(tmp_path) as api:
        yield Asker(api)
