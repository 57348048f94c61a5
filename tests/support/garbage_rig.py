"""Owners and dependents on an in-process API server, with the garbage collector running."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import EventSource
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.schema import CONFIG_MAPS, EVENTS, Resource
from pykubelet.api.scheme import as_documents
from pykubelet.api.serializer import Document
from pykubelet.client.interface import ControllerClient, PatchType
from pykubelet.client.recorder import Recorder
from pykubelet.controllers.garbagecollector.garbagecollector import GarbageCollector
from pykubelet.testing.virtual_time import VirtualClock


class Owners:
    """A server, and config maps that own each other."""

    def __init__(self, client: ControllerClient, *, clock: Clock | None = None) -> None:
        self.client, self._clock = client, clock or VirtualClock()

    @asynccontextmanager
    async def collecting(self, client: ControllerClient | None = None) -> AsyncIterator[None]:
        """Runs the garbage collector, with another client if given; yields once it is ready."""
        recorder = Recorder(sink=self.client, source=EventSource(component="garbage"), clock=self._clock)
        collector = GarbageCollector(client=client or self.client, recorder=recorder, clock=self._clock)
        ready = asyncio.Event()
        async with running(
            {"collector": with_ready_event(collector.run, ready), "events": with_ready_event(recorder.run)}
        ):
            await ready.wait()
            yield

    async def make(
        self,
        name: str,
        *owners: Document,
        resource: Resource = CONFIG_MAPS,
        namespace: str = "default",
        **metadata: Any,
    ) -> Document:
        """Create an object with these owners."""
        place = namespace if resource.namespaced else ""
        meta = {"name": name, "ownerReferences": [reference(owner) for owner in owners], **metadata}
        body: Document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        return await self.client.create(as_documents(resource), body, namespace=place)

    async def make_all(self, graph: Mapping[str, Iterable[str]], *, blocking: bool = True) -> None:
        """Create config maps from a graph of names to the names of their owners; the graph may have cycles."""
        made = {name: await self.make(name) for name in graph}
        for name, owners in graph.items():
            references = [reference(made[owner], blocking=blocking) for owner in owners]
            body = {"metadata": {"ownerReferences": references}}
            await self.client.patch(
                as_documents(CONFIG_MAPS), name, body, namespace="default", patch_type=PatchType.MERGE
            )

    async def delete(self, name: str, policy: str = "", *, resource: Resource = CONFIG_MAPS) -> None:
        options = DeleteOptions(propagation_policy=policy or None)
        place = "default" if resource.namespaced else ""
        await self.client.delete(as_documents(resource), name, namespace=place, options=options)

    async def get(self, name: str, *, resource: Resource = CONFIG_MAPS, namespace: str = "default") -> Document | None:
        try:
            return await self.client.get(as_documents(resource), name, namespace=namespace)
        except NotFound:
            return None

    async def left(self, resource: Resource = CONFIG_MAPS) -> dict[str, set[str]]:
        """The objects that still exist: each name with the names of its owners."""
        found = await self.client.list(as_documents(resource))
        return {
            item["metadata"]["name"]: {owner["name"] for owner in item["metadata"].get("ownerReferences", [])}
            for item in found.items
        }

    async def events(self) -> list[tuple[str, str]]:
        """Reason and message of all events."""
        found = await self.client.list(as_documents(EVENTS))
        return [(item["reason"], item["message"]) for item in found.items]

    async def involved(self, reason: str) -> Document:
        """The object that the event with this reason is about."""
        found = await self.client.list(as_documents(EVENTS))
        (about,) = (item["involvedObject"] for item in found.items if item["reason"] == reason)
        return dict(about)


def reference(owner: Document, *, blocking: bool = True) -> Document:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "blockOwnerDeletion": blocking,
    }


def survivors(graph: Mapping[str, Iterable[str]], deleted: str, policy: str) -> dict[str, set[str]]:
    """The objects that must remain after one is deleted, each with its remaining owners."""
    gone, found = {deleted}, policy != "Orphan"
    while found:
        more = {name for name, owners in graph.items() if name not in gone and set(owners) and set(owners) <= gone}
        gone, found = gone | more, bool(more)
    return {name: set(owners) - gone for name, owners in graph.items() if name not in gone}
