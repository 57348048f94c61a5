"""After any sequence of changes and faults, readers get the current objects of the server."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api import schema, serializer
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import ConfigMap
from pykubelet.api.scheme import CONFIG_MAPS
from pykubelet.kubelet.objectcache.store import (
    CacheOptions,
    NotRegistered,
    NotSynced,
    ObjectKey,
    ObjectSource,
    TtlStore,
)
from pykubelet.kubelet.objectcache.watch_based_manager import WatchStore
from pykubelet.testing.build import config_map
from pykubelet.testing.faults import Fault, FaultyClient
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

Running = Callable[[Any], AbstractAsyncContextManager[None]]
Store = WatchStore[ConfigMap] | TtlStore[ConfigMap]
Step = tuple[str, str, int]
NAMES = ("a", "b", "c")
QUIET_SECONDS = 600.0

OPTIONS = {
    "namespace": CacheOptions(),
    "single": CacheOptions(single_object_watches=True),
    "bounded": CacheOptions(single_object_watches=True, max_streams=1),
}

steps = st.lists(
    st.tuples(
        st.sampled_from(("write", "write", "erase", "refer", "refer", "release", "read", "pause", "compact")),
        st.sampled_from(NAMES),
        st.integers(1, 3),
    ),
    max_size=20,
)
FIXED_STORY: tuple[Step, ...] = (
    *(("write", "a", 1), ("refer", "a", 1), ("read", "a", 1), ("write", "b", 2), ("refer", "b", 1)),
    *(("read", "b", 1), ("compact", "a", 1), ("write", "a", 2), ("pause", "a", 3), ("erase", "b", 1)),
    *(("pause", "a", 1), ("refer", "c", 1), ("write", "c", 1), ("read", "c", 1), ("release", "a", 1)),
    *(("write", "b", 3), ("pause", "a", 2), ("refer", "a", 2), ("read", "a", 1)),
)


def stored(api: MemoryApi) -> dict[str, serializer.Document]:
    return {document["metadata"]["name"]: document for document in api.documents(schema.CONFIG_MAPS)}


async def act(api: MemoryApi, store: Store, step: Step) -> None:
    """Applies one step: its number is a value, a referrer or a duration."""
    what, name, number = step
    key = ObjectKey("default", name)
    match what:
        case "write":
            uid = stored(api).get(name, {"metadata": {"uid": f"{name}-{len(api.calls)}-{number}"}})["metadata"]["uid"]
            document = serializer.to_document(config_map(name, {"value": str(number)}))
            api.put(schema.CONFIG_MAPS, {**document, "metadata": {**document["metadata"], "uid": uid}})
        case "erase" if name in stored(api):
            api.remove(schema.CONFIG_MAPS, namespace="default", name=name)
        case "refer":
            store.add_reference(key, f"pod-{number}")
        case "release":
            store.delete_reference(key, f"pod-{number}")
        case "read":
            await read(store, key)
        case "pause":
            await asyncio.sleep(0.01 * 100 ** (number - 1))
        case "compact":
            api.compact()


async def read(store: Store, key: ObjectKey) -> str:
    """The result of a read: a value, or why there is none."""
    try:
        return (await store.get(key, timeout_seconds=1)).data["value"]
    except NotFound:
        return "absent"
    except NotRegistered:
        return "not registered"
    except (NotSynced, ApiError):
        return "later"


async def assert_settled(api: MemoryApi, store: Store, story: tuple[Step, ...]) -> None:
    await asyncio.sleep(QUIET_SECONDS)
    referrers: dict[str, list[int]] = {name: [] for name in NAMES}
    for what, name, number in story:
        if what == "refer":
            referrers[name].append(number)
        elif what == "release" and number in referrers[name]:
            referrers[name].remove(number)
    for name in NAMES:
        # An idle watch restarts with the first reader, and its list may hit the fault.
        await read(store, ObjectKey("default", name))
        await asyncio.sleep(60)
        told = await read(store, ObjectKey("default", name))
        exists = stored(api).get(name)
        expected = exists["data"]["value"] if exists else "absent"
        assert told == (expected if referrers[name] else "not registered"), name


@pytest.mark.parametrize("mode", OPTIONS)
@settings(max_examples=100, deadline=None)
@given(story=steps)
async def test_readers_get_the_current_objects_after_any_steps(running: Running, mode: str, story: list[Step]) -> None:
    """Any mixture of writes, references, reads and compactions."""
    api = MemoryApi(VirtualClock())
    source: ObjectSource[ConfigMap] = ObjectSource(api, CONFIG_MAPS, VirtualClock())
    store = WatchStore(source=source, changed=lambda _: None, options=OPTIONS[mode])
    async with running(store):
        for step in story:
            await act(api, store, step)
        await assert_settled(api, store, tuple(story))


@settings(max_examples=100, deadline=None)
@given(story=steps)
async def test_ttl_readers_get_the_current_objects_after_any_steps(running: Running, story: list[Step]) -> None:
    """Without watches, one minute later."""
    api = MemoryApi(VirtualClock())
    source: ObjectSource[ConfigMap] = ObjectSource(api, CONFIG_MAPS, VirtualClock())
    # This store counts references without names: skip releases that no reference precedes.
    owed: list[tuple[str, int]] = []
    store = TtlStore(source=source, changed=lambda _: None)
    fair: list[Step] = []
    for what, name, number in story:
        if what == "refer":
            owed.append((name, number))
        elif what == "release" and (name, number) not in owed:
            continue
        elif what == "release":
            owed.remove((name, number))
        fair.append((what, name, number))
    for step in fair:
        await act(api, store, step)
    await assert_settled(api, store, tuple(fair))


@pytest.mark.parametrize("mode", OPTIONS)
@pytest.mark.parametrize("fault", Fault)
async def test_readers_get_the_current_objects_after_any_single_fault(
    running: Running, mode: str, fault: Fault
) -> None:
    """One fault at every request where it can occur."""
    at = 0
    while True:
        api = MemoryApi(VirtualClock())
        faulty = FaultyClient(api, fault, at=at)
        source: ObjectSource[ConfigMap] = ObjectSource(faulty, CONFIG_MAPS, VirtualClock())
        store = WatchStore(source=source, changed=lambda _: None, options=OPTIONS[mode])
        async with running(store):
            for step in FIXED_STORY:
                await act(api, store, step)
            await assert_settled(api, store, FIXED_STORY)
        if not faulty.injected:
            break
        at += 1
    assert at > 0
