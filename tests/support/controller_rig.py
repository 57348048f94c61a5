"""Controllers at work on an API server in this process: informers, a recorder, and loops."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import EventSource
from pykubelet.api.schema import EVENTS, Resource
from pykubelet.api.scheme import as_documents
from pykubelet.api.serializer import Document
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client, PatchType
from pykubelet.client.recorder import Recorder
from pykubelet.controllers.framework.work_queue import ControllerWorkers
from pykubelet.testing.virtual_time import VirtualClock


class Listening(Protocol):
    """A controller."""

    def listen(self, informers: Informers) -> None: ...
    async def process_next(self) -> None: ...


class Bench:
    """One client, what is known of its server, and the objects of a test."""

    def __init__(self, client: Client, *, plain: Client | None = None) -> None:
        """Controllers use `client`; the test uses `plain`, if that is another one."""
        self.client, self.plain, self.clock = client, plain or client, VirtualClock()
        self.informers = Informers(client=client, clock=self.clock)
        self.recorder = Recorder(sink=self.plain, source=EventSource(component="tests"), clock=self.clock)

    @asynccontextmanager
    async def running(self, *controllers: Listening) -> AsyncIterator[None]:
        """The controllers at work, everything listed."""
        informed = asyncio.Event()
        runners = {
            "events": with_ready_event(self.recorder.run),
            "informers": with_ready_event(self.informers.run, informed),
        }
        for controller in controllers:
            controller.listen(self.informers)
            name = type(controller).__name__
            loop = ControllerWorkers(name=name, process_next=controller.process_next, informed=informed)
            runners[name] = with_ready_event(loop.run)
        async with running(runners):
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
