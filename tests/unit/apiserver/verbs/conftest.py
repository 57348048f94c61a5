"""A server for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from in_process import Asker
from pykubelet.testing.local_api import local_api


@pytest.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    async with local_api(tmp_path) as api:
        yield Asker(api)
