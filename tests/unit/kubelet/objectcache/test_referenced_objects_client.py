"""The client of a namespace reflector, which hides objects that no pod refers to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

import pytest

from pykubelet.api.generated.core import ConfigMap
from pykubelet.api.scheme import CONFIG_MAPS
from pykubelet.client.interface import WatchEvent
from pykubelet.kubelet.objectcache.watch_based_manager import NamespaceWatch, ReferencedObjectsClient
from pykubelet.testing.build import config_map
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import ManualClock

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class Names:
    """Wanted names, and those that the reflector already stores."""

    def __init__(self, wanted: str = "", known: str = "") -> None:
        self._wanted, self._known = wanted.split(), known.split()
        self.begun = 0
        self.gone: list[str] = []

    def begin(self) -> None:
        self.begun += 1

    def is_wanted(self, name: str) -> bool:
        return name in self._wanted

    def is_known(self, name: str) -> bool:
        return name in self._known

    def deleted(self, obj: ConfigMap) -> None:
        self.gone.append(obj.metadata.name)


class OneEvent(MemoryApi):
    """A server whose watch emits one event."""

    def __init__(self, event: WatchEvent[ConfigMap]) -> None:
        super().__init__(ManualClock())
        self._event = event

    @asynccontextmanager
    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        async def events() -> AsyncIterator[WatchEvent[ConfigMap]]:
            yield self._event

        yield events()


async def test_list_shows_only_what_is_wanted() -> None:
    """Other objects are dropped page by page; a get returns any object."""
    api, names = MemoryApi(ManualClock()), Names("b c")
    for name in ("a", "b", "c", "d"):
        await api.create(CONFIG_MAPS, config_map(name), namespace="default")
    client = ReferencedObjectsClient(api, cast("NamespaceWatch[Any]", names))
    page = await client.list(CONFIG_MAPS, namespace="default", limit=2)
    rest = await client.list(CONFIG_MAPS, namespace="default", limit=2, continue_token=page.continue_token)
    assert [item.metadata.name for item in (*page.items, *rest.items)] == ["b", "c"]
    assert page.resource_version == (await api.list(CONFIG_MAPS)).resource_version
    assert names.begun == 2
    assert (await client.get(CONFIG_MAPS, "a", namespace="default")).metadata.name == "a"


@pytest.mark.parametrize(
    ("names", "type", "shown", "gone"),
    [
        pytest.param(Names("a"), "ADDED", "ADDED", [], id="wanted and new"),
        pytest.param(Names("a", "a"), "MODIFIED", "MODIFIED", [], id="wanted and changed"),
        pytest.param(Names("a"), "MODIFIED", "MODIFIED", [], id="wanted, changed, not known yet"),
        pytest.param(Names("a", "a"), "DELETED", "DELETED", [], id="wanted and gone"),
        pytest.param(Names("a"), "DELETED", "BOOKMARK", ["a"], id="wanted and gone before it was known"),
        pytest.param(Names(), "ADDED", "BOOKMARK", [], id="not wanted"),
        pytest.param(Names(), "DELETED", "BOOKMARK", [], id="not wanted and gone"),
        pytest.param(Names("", "a"), "MODIFIED", "DELETED", [], id="not wanted any more, so forget it"),
        pytest.param(Names("", "a"), "DELETED", "DELETED", [], id="not wanted any more and gone"),
    ],
)
async def test_event_is_shown_as(names: Names, type: EventType, shown: EventType, gone: list[str]) -> None:
    """Every event advances the resource version; events of unwanted objects carry no object."""
    client = ReferencedObjectsClient(
        OneEvent(WatchEvent(type, config_map("a"), "7")), cast("NamespaceWatch[Any]", names)
    )
    async with client.watch(CONFIG_MAPS) as events:
        [event] = [event async for event in events]
    expected = None if shown == "BOOKMARK" else config_map("a")
    assert event == WatchEvent(shown, expected, "7")
    assert names.gone == gone


async def test_bookmark_passes() -> None:
    """It has no object to filter."""
    client = ReferencedObjectsClient(OneEvent(WatchEvent("BOOKMARK", None, "9")), cast("NamespaceWatch[Any]", Names()))
    async with client.watch(CONFIG_MAPS) as events:
        assert [event async for event in events] == [WatchEvent("BOOKMARK", None, "9")]
