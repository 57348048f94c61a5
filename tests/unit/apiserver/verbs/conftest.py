"""A server for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykubelet.testing.local_api import local_api
from verb_requests import Asker


@pytest.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    async with local_api(tmp_path) as api:
        yield Asker(api)
