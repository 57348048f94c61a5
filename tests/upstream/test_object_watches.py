"""Cases 4.9-16 to 4.9-22: objects kept up to date by a watch for each."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykubelet.api import schema, serializer
from pykubelet.api.errors import Forbidden, NotFound, NotReached
from pykubelet.api.generated.core import Secret
from pykubelet.api.scheme import SECRETS
from pykubelet.client.interface import EVERYTHING, Selection
from pykubelet.kubelet.objectcache.store import CacheOptions, NotRegistered, NotSynced, ObjectKey, ObjectSource
from pykubelet.kubelet.objectcache.watch_based_manager import WatchStore
from pykubelet.testing.build import secret
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

KEY = ObjectKey("ns", "name")


class ClusterApi(MemoryApi):
    """An API server that allows lists and watches of one object only, like the Node authorizer; may be slow or down."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.list_seconds = 0.0
        self.is_down = False

    async def list(self, kind: Any, *, selection: Selection = EVERYTHING, **options: Any) -> Any:
        self._check(selection)
        await asyncio.sleep(self.list_seconds)
        return await super().list(kind, selection=selection, **options)

    @asynccontextmanager
    async def watch(self, kind: Any, *, selection: Selection = EVERYTHING, **options: Any) -> AsyncIterator[Any]:
        self._check(selection)
        async with super().watch(kind, selection=selection, **options) as events:
            yield events

    def _check(self, selection: Selection) -> None:
        if self.is_down:
            raise NotReached("connection refused")
        if not selection.fields:
            raise Forbidden("can only read namespaced objects of this type")

    def hold(self, *, immutable: bool = False) -> None:
        document = serializer.to_document(secret(KEY.name, namespace=KEY.namespace, immutable=immutable or None))
        self.put(schema.SECRETS, {**document, "metadata": {**document["metadata"], "uid": "uid-1"}})

    def drop(self) -> None:
        self.remove(schema.SECRETS, namespace=KEY.namespace, name=KEY.name)

    @property
    def requests(self) -> tuple[tuple[str, str], ...]:
        return tuple((call.verb, call.fields) for call in self.calls)


def store_on(api: ClusterApi, *, max_idle_seconds: float = 300, single: bool = True) -> WatchStore[Secret]:
    options = CacheOptions(sync_frequency_seconds=max_idle_seconds / 5, single_object_watches=single)
    return WatchStore(source=ObjectSource(api, SECRETS, VirtualClock()), changed=lambda _: None, options=options)


@asynccontextmanager
async def running(store: WatchStore[Secret]) -> AsyncIterator[WatchStore[Secret]]:
    ready = asyncio.Event()
    task = asyncio.create_task(store.run(ready))
    await ready.wait()
    try:
        yield store
    finally:
        task.cancel()
        await asyncio.wait({task})


async def read(store: WatchStore[Secret]) -> Secret:
    return await store.get(KEY, timeout_seconds=1)


async def is_absent(store: WatchStore[Secret]) -> bool:
    try:
        await read(store)
    except NotFound as error:
        return str(error) == 'secret "name" not found'
    return False


@pytest.mark.parametrize(
    "single", [pytest.param(True, id="4.9-16 as told"), pytest.param(False, id="4.9-16 after 403")]
)
async def test_store_follows_an_object(single: bool) -> None:
    api = ClusterApi()
    async with running(store_on(api, single=single)) as store:
        store.add_reference(KEY, "pod")
        assert await is_absent(store)
        api.hold()
        await asyncio.sleep(0.01)
        assert (await read(store)).metadata.uid == "uid-1"
        api.drop()
        await asyncio.sleep(0.01)
        assert await is_absent(store)
        store.delete_reference(KEY, "pod")
        with pytest.raises(NotRegistered, match='object "ns"/"name" not registered'):
            await read(store)


@pytest.mark.parametrize(
    "single", [pytest.param(True, id="4.9-17 as told"), pytest.param(False, id="4.9-17 after 403")]
)
async def test_store_lists_and_watches_once(single: bool) -> None:
    api = ClusterApi()
    api.hold()
    expected = (("list", "metadata.name=name"), ("watch", "metadata.name=name"))
    async with running(store_on(api, single=single)) as store:
        store.add_reference(KEY, "pod")
        await asyncio.sleep(0.01)
        assert api.requests == expected
        for number in range(20):
            store.add_reference(KEY, f"pod{number}")
            store.delete_reference(KEY, f"pod{number}")
        await asyncio.sleep(0.01)
        assert api.open_watches == 1
        store.delete_reference(KEY, "pod")
        await asyncio.sleep(0.01)
        assert api.requests == expected
        assert api.open_watches == 0


@pytest.mark.parametrize(
    ("before", "after", "watched"),
    [
        pytest.param(None, False, True, id="4.9-18 created mutable"),
        pytest.param(None, True, False, id="4.9-18 created immutable"),
        pytest.param(False, False, True, id="4.9-18 mutable to mutable"),
        pytest.param(False, True, False, id="4.9-18 mutable to immutable"),
        pytest.param(True, None, False, id="4.9-18 immutable from the start"),
    ],
)
async def test_immutable_object_is_not_watched(before: bool | None, after: bool | None, watched: bool) -> None:
    api = ClusterApi()
    if before is not None:
        api.hold(immutable=before)
    async with running(store_on(api)) as store:
        store.add_reference(KEY, "pod")
        assert await is_absent(store) is (before is None)
        assert store.is_watched(KEY) is (before is not True)
        if after is not None:
            api.hold(immutable=after)
            await asyncio.sleep(0.01)
            assert store.is_watched(KEY)
        found = await read(store)
        assert found.immutable is (None if watched else True)
        assert store.is_watched(KEY) is watched
        await asyncio.sleep(0.01)
        assert api.open_watches == watched
        assert await read(store) is found


@pytest.mark.parametrize(
    ("pause_seconds", "is_stopped"),
    [pytest.param(90, True, id="4.9-19 idle for 90 s"), pytest.param(20, False, id="4.9-19 read every 20 s")],
)
async def test_idle_watch_is_stopped(pause_seconds: float, is_stopped: bool) -> None:
    api = ClusterApi()
    api.hold()
    async with running(store_on(api, max_idle_seconds=60)) as store:
        store.add_reference(KEY, "pod")
        for _ in range(4):
            assert (await read(store)).metadata.uid == "uid-1"
            await asyncio.sleep(pause_seconds)
            await store.tidy()
            assert store.is_watched(KEY) is not is_stopped
        assert (await read(store)).metadata.uid == "uid-1"
        assert store.is_watched(KEY)


@pytest.mark.parametrize("idle", [pytest.param(0, id="4.9-19 never below a minute")])
async def test_idle_time_has_a_minimum(idle: float) -> None:
    api = ClusterApi()
    api.hold()
    async with running(store_on(api, max_idle_seconds=idle)) as store:
        store.add_reference(KEY, "pod")
        await read(store)
        await asyncio.sleep(59)
        await store.tidy()
        assert store.is_watched(KEY)


@pytest.mark.parametrize("list_seconds", [pytest.param(120, id="4.9-20 slow list is not given up")])
async def test_watch_that_has_not_synced_is_not_stopped(list_seconds: float) -> None:
    api = ClusterApi()
    api.hold()
    api.list_seconds = list_seconds
    async with running(store_on(api, max_idle_seconds=60)) as store:
        store.add_reference(KEY, "pod")
        await asyncio.sleep(90)
        await store.tidy()
        assert store.is_watched(KEY)
        with pytest.raises(NotSynced) as caught:
            await read(store)
        assert str(caught.value) == "failed to sync secret cache: timed out waiting for the condition"
        assert asyncio.get_running_loop().time() == 91
        await asyncio.sleep(30)
        await store.tidy()
        assert store.is_watched(KEY)
        assert (await read(store)).metadata.uid == "uid-1"
        assert [verb for verb, _ in api.requests] == ["list", "watch"]


Step = Callable[[WatchStore[Secret]], None]


def add(referrer: str = "pod1", key: ObjectKey = KEY) -> Step:
    return lambda store: store.add_reference(key, referrer)


def delete(referrer: str = "pod1", key: ObjectKey = KEY) -> Step:
    return lambda store: store.delete_reference(key, referrer)


@pytest.mark.parametrize(
    ("steps", "counts"),
    [
        pytest.param([add(), add(), delete(), delete()], [1, 2, 1, 0], id="4.9-21 add and delete twice"),
        pytest.param([delete()], [0], id="4.9-21 delete on nothing"),
        pytest.param([add(), delete(), delete()], [1, 0, 0], id="4.9-21 delete once too often"),
        pytest.param([add(), delete("pod2")], [1, 1], id="4.9-21 another pod"),
        pytest.param([add(), delete(key=ObjectKey("ns", "other"))], [1, 1], id="4.9-21 another object"),
        pytest.param([add(), delete(key=ObjectKey("other", "name"))], [1, 1], id="4.9-21 another namespace"),
        pytest.param(
            [add(), delete("pod2"), delete()], [1, 1, 0], id="4.9-21 departure: a stranger's delete leaks nothing"
        ),
    ],
)
async def test_references_are_counted_by_pod(steps: list[Step], counts: list[int]) -> None:
    store = store_on(ClusterApi())
    for step, count in zip(steps, counts, strict=True):
        step(store)
        assert store.references(KEY, "pod1") == count
    if counts[-1] == 0:
        with pytest.raises(NotRegistered):
            await read(store)


@pytest.mark.parametrize("down_seconds", [pytest.param(3600, id="4.9-22 immutable object during an outage")])
async def test_immutable_object_is_served_without_the_server(down_seconds: float) -> None:
    api = ClusterApi()
    api.hold(immutable=True)
    async with running(store_on(api)) as store:
        store.add_reference(KEY, "pod")
        found = await read(store)
        api.is_down = True
        await asyncio.sleep(down_seconds)
        assert await read(store) is found
