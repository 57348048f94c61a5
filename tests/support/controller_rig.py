"""Runs controllers on an in-process API server: informers, events, workers and simulated nodes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import Binding, EventSource, ObjectReference, Pod
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.schema import EVENTS, Resource
from pykubelet.api.scheme import POD_BINDINGS, PODS, as_documents
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time
from pykubelet.client.informers import Informers
from pykubelet.client.interface import NOW, Client, PatchType
from pykubelet.client.recorder import Recorder
from pykubelet.controllers.daemon.placement import target_node
from pykubelet.controllers.framework.active_pods import ready_condition
from pykubelet.controllers.framework.work_queue import ControllerWorkers
from pykubelet.testing.virtual_time import VirtualClock

NAMESPACE = "default"
BROKEN = "broken"
"""The image of a version that never becomes ready."""


class Listening(Protocol):
    """A controller that takes events from informers and has a work queue."""

    def listen(self, informers: Informers) -> None: ...
    async def process_next(self) -> None: ...


@asynccontextmanager
async def running_controllers(
    *controllers: Listening, informers: Informers, recorder: Recorder
) -> AsyncIterator[asyncio.Event]:
    """Runs controllers with their informers and events; the event is set once the informers are synced."""
    informed = asyncio.Event()
    runners = {"events": with_ready_event(recorder.run), "informers": with_ready_event(informers.run, informed)}
    for controller in controllers:
        controller.listen(informers)
        name = type(controller).__name__
        workers = ControllerWorkers(name=name, process_next=controller.process_next, informed=informed)
        runners[name] = with_ready_event(workers.run)
    async with running(runners):
        yield informed


class SimulatedNodes:
    """The scheduler and all nodes: binds pods, makes them ready unless their image is BROKEN, removes deleted ones."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock

    async def run(self, every_seconds: float = 1) -> None:
        while True:
            for pod in (await self._client.list(PODS, namespace=NAMESPACE)).items:
                with suppress(NotFound):
                    await self._step(pod)
            await asyncio.sleep(every_seconds)

    async def _step(self, pod: Pod) -> None:
        meta = pod.metadata
        if meta.deletion_timestamp is not None:
            await self._client.delete(PODS, meta.name, namespace=NAMESPACE, options=NOW)
        elif not pod.spec.node_name:
            target = ObjectReference(kind="Node", name=target_node(pod) or "node-1")
            binding = Binding(metadata=ObjectMeta(name=meta.name), target=target)
            await self._client.create(POD_BINDINGS, binding, namespace=NAMESPACE, name=meta.name)
        elif ready_condition(pod) is None and pod.status.phase == "Pending":
            await self.report(meta.name, "Running", is_ready=pod.spec.containers[0].image != BROKEN)

    async def report(self, name: str, phase: str, *, is_ready: bool) -> None:
        """Reports the status of a pod as its node would."""
        at = format_time(self._clock.now())
        ready = {"type": "Ready", "status": "True" if is_ready else "False", "lastTransitionTime": at}
        body = {"status": {"phase": phase, "conditions": [ready]}}
        await self._client.patch(
            PODS, name, body, namespace=NAMESPACE, patch_type=PatchType.MERGE, subresource="status"
        )


class Bench:
    """A client with informers and an event recorder, and short methods for the objects of a test."""

    def __init__(self, client: Client, *, plain: Client | None = None) -> None:
        """Controllers use `client`; the test itself and the event recorder use `plain`, by default the same."""
        self.client, self.plain, self.clock = client, plain or client, VirtualClock()
        self.informers = Informers(client=client, clock=self.clock)
        self.recorder = Recorder(sink=self.plain, source=EventSource(component="tests"), clock=self.clock)

    @asynccontextmanager
    async def running(self, *controllers: Listening) -> AsyncIterator[None]:
        """Runs the controllers; yields once their informers are synced."""
        async with running_controllers(*controllers, informers=self.informers, recorder=self.recorder) as informed:
            await informed.wait()
            yield

    async def make(self, resource: Resource, name: str, *, namespace: str = "default", **rest: Any) -> Document:
        metadata = {"name": name, **rest.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **rest}
        return await self.plain.create(as_documents(resource), body, namespace=namespace if resource.namespaced else "")

    async def change(
        self, resource: Resource, name: str, body: Document, *, namespace: str = "default", subresource: str = ""
    ) -> Document:
        place = namespace if resource.namespaced else ""
        return await self.plain.patch(
            as_documents(resource), name, body, namespace=place, patch_type=PatchType.MERGE, subresource=subresource
        )

    async def delete(self, resource: Resource, name: str, *, namespace: str = "default") -> None:
        await self.plain.delete(as_documents(resource), name, namespace=namespace if resource.namespaced else "")

    async def get(self, resource: Resource, name: str, *, namespace: str = "default") -> Document | None:
        try:
            return await self.plain.get(as_documents(resource), name, namespace=namespace)
        except NotFound:
            return None

    async def all(self, resource: Resource, *, namespace: str = "") -> list[Document]:
        return list((await self.plain.list(as_documents(resource), namespace=namespace)).items)

    async def events(self, reason: str) -> list[str]:
        """The messages of events of this reason."""
        return [event["message"] for event in await self.all(EVENTS) if event["reason"] == reason]

    async def until(self, holds: Callable[[], Awaitable[bool]], *, seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while not await holds():
                await asyncio.sleep(0.05)
