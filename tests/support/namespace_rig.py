"""Namespaces with content, on an in-process API server that leaves their termination to a controller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from controller_rig import Bench
from pykubelet.api.schema import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS
from pykubelet.api.scheme import PODS as POD_KIND
from pykubelet.api.serializer import Document
from pykubelet.apiserver.storage.interfaces import StoreChange
from pykubelet.client.interface import NOW, ControllerClient
from pykubelet.controllers.namespace.namespace_controller import NamespaceController
from pykubelet.testing.local_api import LocalApi, local_api

HOLD = "example.com/hold"
POD = {"containers": [{"name": "main", "image": "example/image:1"}]}
LABELS = {"app": "web"}


class Spaces:
    """The server, and what was in each namespace in the moment in which it went."""

    def __init__(self, api: LocalApi) -> None:
        self.api, self.bench = api, Bench(api.client)
        self.gone: dict[str, set[str]] = {}
        api.store.listen(NAMESPACES.group_resource, self._heard)

    def _heard(self, change: StoreChange) -> None:
        if change.after is None:
            self.gone[change.key.name] = self.content(change.key.name)

    @asynccontextmanager
    async def ending(self, client: ControllerClient | None = None) -> AsyncIterator[None]:
        """The controller at work; by another client than ours, if given."""
        asked: ControllerClient = client or self.api.client
        bench = Bench(asked, plain=self.api.client)
        async with bench.running(NamespaceController(client=asked, clock=bench.clock)):
            yield

    async def fill(self, name: str) -> None:
        """A namespace with objects that go at once, a pod that its node has to stop, and one that somebody holds."""
        await self.bench.make(NAMESPACES, name)
        await self.bench.make(CONFIG_MAPS, "free", namespace=name)
        await self.bench.make(CONFIG_MAPS, "held", namespace=name, metadata={"finalizers": [HOLD]})
        await self.bench.make(PODS, "waiting", namespace=name, spec=POD)
        await self.bench.make(PODS, "running", namespace=name, spec={**POD, "nodeName": "n"})
        template = {"metadata": {"labels": LABELS}, "spec": POD}
        spec = {"selector": {"matchLabels": LABELS}, "template": template}
        await self.bench.make(DEPLOYMENTS, "web", namespace=name, spec=spec)

    async def delete(self, name: str) -> None:
        await self.bench.delete(NAMESPACES, name)

    async def stop_pod(self, name: str) -> None:
        """What a node does once the containers are gone."""
        await self.api.client.delete(POD_KIND, "running", namespace=name, options=NOW)

    async def release(self, name: str) -> None:
        """What whoever holds an object does in the end."""
        await self.bench.change(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace=name)

    def content(self, name: str) -> set[str]:
        """What is in a namespace."""
        return {f"{key.collection}/{key.name}" for key in self.api.store.newest_in(name)}

    async def complaints(self, name: str) -> dict[str, str]:
        """Those of the conditions of a namespace that are true."""
        namespace: Document | None = await self.bench.get(NAMESPACES, name)
        assert namespace is not None
        conditions = namespace["status"].get("conditions", ())
        return {one["type"]: one["message"] for one in conditions if one["status"] == "True"}

    async def until_gone(self, name: str) -> None:
        async def is_gone() -> bool:
            return name in self.gone

        await self.bench.until(is_gone, seconds=300)


@asynccontextmanager
async def spaces(folder: Path) -> AsyncIterator[Spaces]:
    """The server, for as long as the context lasts."""
    async with local_api(folder, ends_namespaces=False) as api:
        yield Spaces(api)
