"""The clients the contract suite runs against."""

import pytest

from pykubelet.kube.client import Client
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock


@pytest.fixture
def api() -> MemoryApi:
    return MemoryApi(VirtualClock())


@pytest.fixture
def client(api: MemoryApi) -> Client:
    return api
