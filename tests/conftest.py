"""Virtual time for every async test except those in tests/real; no logged bugs; in CI always the same examples."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import settings

from logged_bugs import LoggedBugs
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


@pytest.fixture(autouse=True)
def logged_bugs(request: pytest.FixtureRequest) -> Iterator[LoggedBugs]:
    """Fails a test during which a bug was logged, except in tests/real, which break what they run at any moment."""
    bugs, root = LoggedBugs(), logging.getLogger()
    root.addHandler(bugs)
    yield bugs
    root.removeHandler(bugs)
    if bugs.found and not request.path.is_relative_to(REAL):
        raise bugs.found[0]
