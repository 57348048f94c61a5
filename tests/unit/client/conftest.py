"""A reflector that follows an in-memory API whose streams a test can cut."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from pykubelet.api import schema
from pykubelet.api.errors import ApiError
from pykubelet.api.scheme import TypedKind, as_documents
from pykubelet.api.serializer import Document
from pykubelet.client.interface import EVERYTHING, Listing, Selection, WatchEvent
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

T = TypeVar("T")
MAPS = as_documents(schema.CONFIG_MAPS)
SETTLED = 0.001


class RecordingSink:
    """Records the calls and checks that they are consistent."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.view: dict[str, Document] = {}
        self.syncs = 0

    def added(self, obj: Document) -> None:
        name = obj["metadata"]["name"]
        assert name not in self.view
        self.view[name] = obj
        self.heard.append(("added", name))

    def modified(self, obj: Document) -> None:
        name = obj["metadata"]["name"]
        assert self.view[name]["metadata"]["uid"] == obj["metadata"]["uid"]
        assert self.view[name]["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]
        self.view[name] = obj
        self.heard.append(("modified", name))

    def deleted(self, obj: Document) -> None:
        name = obj["metadata"]["name"]
        assert self.view.pop(name)["metadata"]["uid"] == obj["metadata"]["uid"]
        self.heard.append(("deleted", name))

    def synced(self) -> None:
        self.syncs += 1


class ScriptedClient:
    """Passes requests to an in-memory API, raises the prepared errors first, and cuts open streams on request."""

    def __init__(self, inner: MemoryApi) -> None:
        self.inner = inner
        self.list_errors: list[ApiError | None] = []
        self.watch_errors: list[ApiError | None] = []
        self.lists: list[tuple[str, int, str]] = []
        self.watches: list[tuple[str, float | None]] = []
        self.times: list[float] = []
        self._cut = asyncio.Event()
        self._cut_error: ApiError | None = None

    async def get(self, kind: TypedKind[T], name: str, *, namespace: str = "", resource_version: str = "") -> T:
        raise NotImplementedError

    async def list(
        self,
        kind: TypedKind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> Listing[T]:
        self.lists.append((resource_version, limit, continue_token))
        self.times.append(asyncio.get_running_loop().time())
        if self.list_errors and (error := self.list_errors.pop(0)):
            raise error
        return await self.inner.list(
            kind, namespace=namespace, selection=selection, limit=limit, continue_token=continue_token
        )

    @asynccontextmanager
    async def watch(
        self,
        kind: TypedKind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        self.watches.append((resource_version, timeout_seconds))
        if self.watch_errors and (error := self.watch_errors.pop(0)):
            raise error
        async with self.inner.watch(
            kind,
            namespace=namespace,
            selection=selection,
            resource_version=resource_version,
        ) as events:
            yield self._until_cut(events, asyncio.get_running_loop().time() + (timeout_seconds or 0))

    async def _until_cut(self, events: AsyncIterator[WatchEvent[T]], end: float) -> AsyncIterator[WatchEvent[T]]:
        cut = asyncio.ensure_future(self._cut.wait())
        while (left := end - asyncio.get_running_loop().time()) > 0:
            event = asyncio.ensure_future(anext(events))
            await asyncio.wait((event, cut), return_when=asyncio.FIRST_COMPLETED, timeout=left)
            if event.done() and not cut.done():
                yield event.result()
                continue
            event.cancel()
            await asyncio.wait((event,))
            if cut.done():
                if self._cut_error:
                    raise self._cut_error
                return
        cut.cancel()

    def cut(self, error: ApiError | None = None) -> None:
        self._cut_error = error
        self._cut.set()
        self._cut = asyncio.Event()


class Following:
    """A reflector that follows an in-memory API."""

    def __init__(self, *, api: MemoryApi | None = None, client: ListerWatcher | None = None, **options: Any) -> None:
        self.api = api or MemoryApi(VirtualClock())
        self.client = ScriptedClient(self.api)
        self.sink = RecordingSink()
        self.ready = asyncio.Event()
        self.reflector = Reflector(
            client=client or self.client,
            kind=MAPS,
            sink=self.sink,
            clock=VirtualClock(),
            namespace="default",
            **options,
        )
        self._uids = 0
        self.put("first")

    @asynccontextmanager
    async def running(self, *, until_ready: bool = True) -> AsyncIterator["asyncio.Task[None]"]:
        task = asyncio.create_task(self.reflector.run(self.ready))
        try:
            if until_ready:
                await self.ready.wait()
                await asyncio.sleep(SETTLED)
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert self.api.open_watches == 0

    def put(self, name: str, value: str = "") -> None:
        old = {doc["metadata"]["name"]: doc for doc in self.api.documents(MAPS.resource)}.get(name)
        if old is None:
            self._uids += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self._uids}"
        metadata = {"namespace": "default", "name": name, "uid": uid}
        self.api.put(
            MAPS.resource, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}}
        )

    def version(self, name: str) -> str:
        """Returns the resource version of the stored object."""
        stored = {doc["metadata"]["name"]: doc for doc in self.api.documents(MAPS.resource)}
        return str(stored[name]["metadata"]["resourceVersion"])

    def remove(self, name: str) -> None:
        self.api.remove(MAPS.resource, namespace="default", name=name)

    def assert_same(self) -> None:
        stored = {doc["metadata"]["name"]: doc for doc in self.api.documents(MAPS.resource)}
        assert self.sink.view == stored


@pytest.fixture(scope="session")
def following() -> Callable[..., Any]:
    """Returns the class `Following`; keyword arguments go to the reflector, and `api` is the API to follow."""
    return Following
