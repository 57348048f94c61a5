"""The controller of CustomResourceDefinitions, on a real store."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.schema import Resource
from pykubelet.apiserver.apiextensions.controller import CustomResources
from pykubelet.apiserver.apiextensions.customresourcedefinition import COLLECTION, KIND
from pykubelet.apiserver.apiextensions.status import find_condition, is_true, with_accepted_names
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.interfaces import StoreKey
from pykubelet.kinds.kind import Kind
from pykubelet.testing.virtual_time import VirtualClock
from widgets import NOW, definition, widget

_KEY = StoreKey(COLLECTION, "", "widgets.example.com")
_WIDGET = StoreKey("widgets.example.com", "default", "w")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[DurableStore]:
    async with open_store(tmp_path / "state.db", clock=VirtualClock()) as store:
        yield store


@pytest.fixture
async def registry(store: DurableStore) -> AsyncIterator[ServedKinds]:
    registry = ServedKinds()
    resources = CustomResources(store=store, registry=registry, clock=VirtualClock())
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(resources.run(ready))
        await ready.wait()
        yield registry
        task.cancel()


async def _put(store: DurableStore, key: StoreKey, document: dict[str, Any] | None) -> None:
    await store.write(key, lambda _entry: document)


async def _until(
    store: DurableStore, key: StoreKey, holds: Callable[[dict[str, Any] | None], bool]
) -> dict[str, Any] | None:
    async with asyncio.timeout(5):
        while True:
            entry = store.get(key)
            document = None if entry is None else entry.document
            if holds(document):
                return document
            await asyncio.sleep(0.001)


def _row(registry: ServedKinds) -> Kind | None:
    return registry.find("example.com", "v1", "widgets")


def _established(document: dict[str, Any] | None) -> bool:
    return document is not None and is_true(document, "Established")


async def test_kind_is_served_when_its_definition_shows_as_established(
    store: DurableStore, registry: ServedKinds
) -> None:
    """The kind is no longer served once the definition is deleted."""
    await _put(store, _KEY, definition())
    await _until(store, _KEY, _established)
    assert _row(registry) is not None
    await _put(store, _KEY, None)
    assert _row(registry) is None


async def test_kinds_are_served_from_the_start_after_a_restart(store: DurableStore, registry: ServedKinds) -> None:
    """The constructor registers them, before any request is answered."""
    await _put(store, _KEY, definition())
    await _until(store, _KEY, _established)
    again = ServedKinds()
    CustomResources(store=store, registry=again, clock=VirtualClock())
    assert _row(again) is not None


async def test_refused_definition_is_established_once_the_name_is_free(
    store: DurableStore, registry: ServedKinds
) -> None:
    """The other definition is deleted, which frees its names."""
    await _put(store, _KEY, definition())
    await _until(store, _KEY, _established)
    other = definition(names={"plural": "others", "singular": "other", "kind": "Widget", "listKind": "OtherList"})
    other["metadata"] = {"name": "others.example.com"}
    key = StoreKey(COLLECTION, "", "others.example.com")
    await _put(store, key, other)
    refused = await _until(store, key, lambda found: bool(found and find_condition(found, "NamesAccepted")))
    assert refused
    assert not is_true(refused, "NamesAccepted")
    await _put(store, _KEY, None)
    assert await _until(store, key, _established)


async def test_built_in_kind_is_not_replaced(store: DurableStore) -> None:
    """A definition of the same resource has no effect."""
    registry = ServedKinds()
    resource = Resource("example.com", "v1", "widgets", "Widget")
    built_in = Kind(resource=resource, singular="widget", definition="core.v1.ConfigMap")
    registry.add(built_in)
    CustomResources(store=store, registry=registry, clock=VirtualClock())
    await _put(store, _KEY, with_accepted_names(definition(), [], NOW))
    assert _row(registry) is built_in


async def test_custom_objects_are_deleted_before_their_definition(store: DurableStore, registry: ServedKinds) -> None:
    """The definition waits for an object with a finalizer."""
    await _put(store, _KEY, definition())
    established = await _until(store, _KEY, _established)
    assert established
    held = widget()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await _put(store, _WIDGET, held)
    await _put(store, _WIDGET._replace(name="free"), widget())
    metadata = {**established["metadata"], "deletionTimestamp": NOW}
    await _put(store, _KEY, KIND.strategy.prepare_delete({**established, "metadata": metadata}))
    marked = await _until(store, _WIDGET, lambda found: bool(found and found["metadata"].get("deletionTimestamp")))
    assert marked
    assert store.get(_WIDGET._replace(name="free")) is None
    ending = await _until(store, _KEY, bool)
    assert ending
    condition = find_condition(ending, "Terminating")
    assert condition
    assert condition["reason"] == "InstanceDeletionInProgress"
    await _put(store, _WIDGET, None)
    assert await _until(store, _KEY, lambda found: found is None) is None
    assert _row(registry) is None


async def test_definition_with_another_finalizer_stays_when_its_objects_are_gone(
    store: DurableStore, registry: ServedKinds
) -> None:
    """Its Terminating condition reports that they are deleted; the definition was never established."""
    stuck = definition()
    stuck["metadata"] |= {"deletionTimestamp": NOW, "finalizers": ["example.com/mine"]}
    await _put(store, _KEY, KIND.strategy.prepare_delete(stuck))
    found = await _until(store, _KEY, lambda found: found is not None and len(found["metadata"]["finalizers"]) == 1)
    assert found
    condition = find_condition(found, "Terminating")
    assert condition
    assert condition["reason"] == "InstanceDeletionCompleted"
