"""The clients and runtimes the contract suites run against."""

import pytest

from pykubelet.client.interface import Client
from pykubelet.runtimes.sim.runtime import SimRuntime
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock


@pytest.fixture
def api() -> MemoryApi:
    return MemoryApi(VirtualClock())


@pytest.fixture
def client(api: MemoryApi) -> Client:
    return api


@pytest.fixture
def runtime() -> SimRuntime:
    return SimRuntime(clock=VirtualClock())


@pytest.fixture
def image() -> str:
    """An image that the runtime has, with a shell in it."""
    return "example/image:1"
