"""Runs the contract suite of clients against the REST client, over real sockets."""

from collections.abc import AsyncIterator

import pytest
from contract.test_client import *  # noqa: F403  the whole suite, with this file's fixtures

from pykubelet.aio.clock import SystemClock
from pykubelet.client.interface import Client
from pykubelet.client.rest import RestClient
from pykubelet.client.transport import RestConfig, UserCredentials
from pykubelet.testing.memory_api import MemoryApi


@pytest.fixture
def api(served: tuple[MemoryApi, str]) -> MemoryApi:
    return served[0]


@pytest.fixture
async def client(served: tuple[MemoryApi, str]) -> AsyncIterator[Client]:
    async with RestClient(RestConfig(served[1], UserCredentials()), clock=SystemClock()) as client:
        yield client
