"""The watch based store: namespace watches, the fallback to single objects, their limit, and reads meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from pykubelet.api import schema, serializer
from pykubelet.api.errors import ApiError, Forbidden, InternalError, NotFound, NotReached
from pykubelet.api.generated.core import ConfigMap
from pykubelet.api.scheme import CONFIG_MAPS
from pykubelet.client.interface import EVERYTHING, Selection
from pykubelet.kubelet.objectcache.store import CacheOptions, NotSynced, ObjectKey, ObjectSource
from pykubelet.kubelet.objectcache.watch_based_manager import WatchStore
from pykubelet.testing.build import config_map
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

Running = Callable[[Any], AbstractAsyncContextManager[None]]
SINGLE = CacheOptions(single_object_watches=True)
MOMENT = 0.01


class Server(MemoryApi):
    """A server with config maps of another client; can forbid namespace lists, delay responses, or fail."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.forbids_namespaces = False
        self.error: ApiError | None = None
        self.delay_seconds = 0.0

    async def get(self, kind: Any, name: str, **options: Any) -> Any:
        await self._answer()
        return await super().get(kind, name, **options)

    async def list(self, kind: Any, *, selection: Selection = EVERYTHING, **options: Any) -> Any:
        await self._answer(selection)
        return await super().list(kind, selection=selection, **options)

    @asynccontextmanager
    async def watch(self, kind: Any, *, selection: Selection = EVERYTHING, **options: Any) -> AsyncIterator[Any]:
        await self._answer(selection)
        async with super().watch(kind, selection=selection, **options) as events:
            yield events

    def write(self, name: str, value: str = "1", *, uid: str = "", immutable: bool | None = None) -> None:
        """Create or change a config map; another UID means that it was recreated."""
        document = serializer.to_document(config_map(name, {"value": value}, immutable=immutable))
        self.put(schema.CONFIG_MAPS, {**document, "metadata": {**document["metadata"], "uid": uid or f"uid-{name}"}})

    def erase(self, name: str) -> None:
        self.remove(schema.CONFIG_MAPS, namespace="default", name=name)

    def asked(self) -> tuple[str, ...]:
        """The requests since the last call."""
        requests = tuple(f"{call.verb} {call.name or call.fields}".strip() for call in self.calls)
        self.calls.clear()
        return requests

    async def _answer(self, selection: Selection | None = None) -> None:
        await asyncio.sleep(self.delay_seconds)
        if self.error is not None:
            raise self.error
        if self.forbids_namespaces and selection is not None and not selection.fields:
            raise Forbidden("can only read namespaced objects of this type")


class World:
    """A server, a store that uses it, and the changes that the store reported."""

    def __init__(self, options: CacheOptions | None = None) -> None:
        self.server = Server()
        self.changed: list[str] = []
        source: ObjectSource[ConfigMap] = ObjectSource(self.server, CONFIG_MAPS, VirtualClock())
        self.store = WatchStore(
            source=source, changed=lambda key: self.changed.append(key.name), options=options or CacheOptions()
        )

    def refer(self, *names: str, by: str = "pod") -> None:
        for name in names:
            self.store.add_reference(ObjectKey("default", name), by)

    def release(self, *names: str, by: str = "pod") -> None:
        for name in names:
            self.store.delete_reference(ObjectKey("default", name), by)

    async def value(self, name: str, timeout_seconds: float = 1) -> str | None:
        """The value in a config map, or None if it does not exist."""
        try:
            found = await self.store.get(ObjectKey("default", name), timeout_seconds=timeout_seconds)
        except NotFound:
            return None
        return found.data["value"]

    def is_watched(self, name: str) -> bool:
        return self.store.is_watched(ObjectKey("default", name))


async def test_namespace_is_watched_once_for_all_its_objects(running: Running) -> None:
    """One list and one watch, for any number of references."""
    world = World()
    world.server.write("a", "1")
    world.server.write("b", "2")
    async with running(world.store):
        world.refer("a", "b", "absent")
        assert [await world.value(name) for name in ("a", "b", "absent")] == ["1", "2", None]
        world.server.write("a", "3")
        world.server.erase("b")
        world.server.write("absent", "4")
        await asyncio.sleep(MOMENT)
        assert [await world.value(name) for name in ("a", "b", "absent")] == ["3", None, "4"]
        assert world.server.asked() == ("list", "watch")
        assert world.server.open_watches == 1


async def test_namespace_watch_ends_with_the_last_reference(running: Running) -> None:
    """The next reference starts it again."""
    world = World()
    world.server.write("a")
    async with running(world.store):
        world.refer("a", "b")
        await asyncio.sleep(MOMENT)
        world.release("a")
        await asyncio.sleep(MOMENT)
        assert world.server.open_watches == 1
        world.release("b")
        await asyncio.sleep(MOMENT)
        assert world.server.open_watches == 0
        world.refer("a")
        assert await world.value("a") == "1"


async def test_late_reference_is_fetched_once(running: Running) -> None:
    """An object dropped by the filter costs one GET for any number of readers; then the watch updates it."""
    world = World()
    world.server.write("a")
    world.server.write("late", "1")
    async with running(world.store):
        world.refer("a")
        await world.value("a")
        await asyncio.sleep(MOMENT)
        world.server.asked()
        world.refer("late")
        assert await asyncio.gather(*(world.value("late") for _ in range(5))) == ["1"] * 5
        assert world.server.asked() == ("get late",)
        world.server.write("late", "2")
        await asyncio.sleep(MOMENT)
        assert await world.value("late") == "2"
        world.release("late")
        world.server.write("late", "3")
        await asyncio.sleep(MOMENT)
        world.refer("late")
        assert await world.value("late") == "3"
        assert world.server.asked() == ("get late",)


async def test_late_reference_is_noticed_when_deleted(running: Running) -> None:
    """Even if no list contained the object, and even if it was deleted during an outage."""
    world = World()
    for name in ("a", "late", "later"):
        world.server.write(name)
    async with running(world.store):
        world.refer("a")
        await world.value("a")
        world.refer("late", "later")
        assert [await world.value(name) for name in ("late", "later")] == ["1", "1"]
        world.server.erase("late")
        await asyncio.sleep(MOMENT)
        assert await world.value("late") is None
        world.changed.clear()
        world.server.error = NotReached("cut")
        await asyncio.sleep(2 * 3600)  # every watch has ended by now, and no new one begins
        world.server.erase("later")
        world.server.compact()
        world.server.error = None
        await asyncio.sleep(120)
        assert world.changed == ["later"]
        assert await world.value("later") is None


async def test_forbidden_namespace_falls_back_to_single_watches(running: Running) -> None:
    """Waiting readers are served by the new watches; the next reference opens one at once."""
    world = World()
    world.server.forbids_namespaces = True
    world.server.delay_seconds = 0.1
    world.server.write("a")
    world.server.write("b")
    async with running(world.store):
        world.refer("a")
        assert await world.value("a") == "1"
        world.refer("b")
        assert await world.value("b") == "1"
        expected = [f"{verb} metadata.name={name}" for name in "ab" for verb in ("list", "watch")]
        await asyncio.sleep(1)
        assert list(world.server.asked()) == expected


async def test_streams_are_bounded_and_the_rest_is_refreshed(running: Running) -> None:
    """Objects beyond the limit are fetched again after a minute; a freed stream is reused."""
    world = World(CacheOptions(single_object_watches=True, max_streams=2))
    names = ("a", "b", "c", "d")
    async with running(world.store):
        for name in names:
            world.server.write(name)
        world.refer(*names)
        assert [await world.value(name) for name in names] == ["1"] * 4
        assert [world.is_watched(name) for name in names] == [True, True, False, False]
        world.server.asked()
        world.server.write("c", "2")
        world.changed.clear()
        await asyncio.sleep(MOMENT)
        assert await world.value("c") == "1"
        await asyncio.sleep(130)
        assert world.changed == ["c"]
        assert await world.value("c") == "2"
        assert set(world.server.asked()) == {"get c", "get d"}
        world.release("a")
        assert await world.value("c") == "2"
        assert world.is_watched("c")
        assert not world.is_watched("d")
        world.server.error = InternalError("on fire")
        await asyncio.sleep(60)
        assert await world.value("d") == "1"
        world.server.error = None
        world.server.erase("d")
        await asyncio.sleep(60)
        assert await world.value("d") is None


async def test_object_without_a_stream_is_tried_again(running: Running) -> None:
    """A failed request is an error for its reader; the next fetch, a minute later, may succeed."""
    world = World(CacheOptions(single_object_watches=True, max_streams=0))
    world.server.write("a")
    async with running(world.store):
        world.refer("a")
        world.server.error = InternalError("on fire")
        with pytest.raises(InternalError):
            await world.value("a")
        await asyncio.sleep(61)
        world.server.error = None
        assert world.changed == []
        await asyncio.sleep(60)
        assert world.changed == ["a"]


async def test_object_fetched_without_a_stream_is_checked_when_it_gets_one(running: Running) -> None:
    """It may have been deleted since, and a list does not show absent objects."""
    world = World(CacheOptions(single_object_watches=True, max_streams=1))
    for name in ("a", "b"):
        world.server.write(name)
    async with running(world.store):
        world.refer("a", "b")
        assert await world.value("b") == "1"
        world.server.erase("b")
        world.release("a")
        assert await world.value("b") is None
        assert world.is_watched("b")


@pytest.mark.parametrize(("immutable", "value"), [(True, "new"), (None, "new"), (None, None)])
async def test_recreated_immutable_object_is_noticed_by_the_next_reference(
    running: Running, immutable: bool | None, value: str | None
) -> None:
    """Each new reference costs one GET; a recreated mutable object is watched again."""
    world = World(SINGLE)
    world.server.write("a", "old", immutable=True)
    async with running(world.store):
        world.refer("a")
        assert await world.value("a") == "old"
        world.server.erase("a")
        if value is not None:
            world.server.write("a", value, uid="successor", immutable=immutable)
        assert await world.value("a") == "old"
        world.server.asked()
        world.refer("a", by="other")
        assert [await world.value("a") for _ in range(2)] == [value] * 2
        assert world.server.asked()[0] == "get a"
        assert world.is_watched("a") is not immutable


async def test_immutable_object_is_served_when_its_check_fails(running: Running) -> None:
    """A new reference during an outage gets the cached object."""
    world = World(SINGLE)
    world.server.write("a", immutable=True)
    async with running(world.store):
        world.refer("a")
        await world.value("a")
        world.refer("a", by="other")
        world.server.error = InternalError("on fire")
        assert await world.value("a") == "1"
        world.server.error, world.server.delay_seconds = None, 5
        assert await world.value("a") == "1"


async def test_recreated_object_is_noticed_in_a_watched_namespace(running: Running) -> None:
    """A namespace watch also covers immutable objects at no extra cost."""
    world = World()
    world.server.write("a", "old", immutable=True)
    async with running(world.store):
        world.refer("a")
        assert await world.value("a") == "old"
        world.server.erase("a")
        world.server.write("a", "new", uid="successor", immutable=True)
        await asyncio.sleep(MOMENT)
        assert await world.value("a") == "new"


@pytest.mark.parametrize(("patience", "served"), [(1.0, False), (5.0, True)])
async def test_reader_waits_as_long_as_it_says(running: Running, patience: float, served: bool) -> None:
    """It waits for the first list, but no longer than its timeout."""
    world = World()
    world.server.write("a")
    world.server.delay_seconds = 3
    async with running(world.store):
        world.refer("a")
        if served:
            assert await world.value("a", patience) == "1"
            assert asyncio.get_running_loop().time() == 3
        else:
            with pytest.raises(NotSynced, match="failed to sync configmap cache: timed out waiting for the condition"):
                await world.value("a", patience)


async def test_fetch_that_fails_is_reported_when_nothing_is_known(running: Running) -> None:
    """The reference was added late, during an outage."""
    world = World()
    async with running(world.store):
        world.refer("a")
        await world.value("a")
        world.refer("late")
        world.server.error = InternalError("on fire")
        with pytest.raises(InternalError):
            await world.value("late")


@pytest.mark.parametrize("options", [CacheOptions(), SINGLE])
async def test_changes_are_reported_at_once(running: Running, options: CacheOptions) -> None:
    """Creations, changes and deletions are reported, but only of objects with references."""
    world = World(options)
    async with running(world.store):
        world.refer("a")
        await asyncio.sleep(MOMENT)
        for value in ("1", "2", None):
            assert world.changed == []
            if value is None:
                world.server.erase("a")
            else:
                world.server.write("a", value)
            world.server.write("other")
            await asyncio.sleep(MOMENT)
            assert world.changed == ["a"]
            world.changed.clear()


@pytest.mark.parametrize("options", [CacheOptions(), SINGLE])
async def test_store_runs_again_after_it_was_stopped(running: Running, options: CacheOptions) -> None:
    """References are counted while stopped, cached objects are not served, and the next run catches up."""
    world = World(options)
    world.server.write("a", "1")
    world.refer("a")
    async with running(world.store):
        assert await world.value("a") == "1"
    assert world.server.open_watches == 0
    with pytest.raises(NotSynced):
        await world.value("a")
    world.server.erase("a")
    world.server.write("b", "2")
    world.refer("b")
    async with running(world.store):
        assert await world.value("b") == "2"
        assert await world.value("a") is None
