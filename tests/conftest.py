"""Virtual time for every async test except those in tests/real; in CI the same generated examples each time."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import settings

from pykubelet.testing.virtual_time import VirtualTimeLoop

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

REAL = Path(__file__).parent / "real"


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.is_relative_to(REAL):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualTimeLoop}
