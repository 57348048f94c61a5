"""The client without HTTP passes the contract of all clients, on the real handlers and the real store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from contract.test_client import *  # noqa: F403  the whole suite, with this file's fixtures

from pykubelet.apiserver.handlers import watch
from pykubelet.client.interface import Client
from pykubelet.testing.local_api import LocalApi, local_api


class _Behind:
    """What the contract suite does to the server without the client."""

    def __init__(self, api: LocalApi) -> None:
        self.client = api.client
        self._store = api.store

    def bookmark(self) -> None:
        """Does nothing: the server sends a bookmark every second here."""

    def compact(self) -> None:
        self._store._history.trim(float("inf"))

    @property
    def open_watches(self) -> int:
        return sum(map(len, self._store._watches._watches.values()))


@pytest.fixture
async def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[_Behind]:
    monkeypatch.setattr(watch, "BOOKMARK_SECONDS", 1.0)
    async with local_api(tmp_path) as served:
        yield _Behind(served)


@pytest.fixture
def client(api: _Behind) -> Client:
    return api.client
