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
    """The API server, and the content of each namespace at the moment of its removal."""

    def __init__(self, api: LocalApi) -> None:
        self.api, self.bench = api, Bench(api.client)
        self.gone: dict[str, set[str]] = {}
        api.store.listen(NAMESPACES.group_resource, self._heard)

    def _heard(self, change: StoreChange) -> None:
        if change.after is None:
            self.gone[change.key.name] = self.content(change.key.name)

    @asynccontextmanager
    async def ending(self, client: ControllerClient | None = None) -> AsyncIterator[None]:
        """Runs the namespace controller, with another client if given."""
        asked: ControllerClient = client or self.api.client
        bench = Bench(asked, plain=self.api.client)
        async with bench.running(NamespaceController(client=asked, clock=bench.clock)):
            yield

    async def fill(self, name: str) -> None:
        """Create a namespace with objects that can be deleted at once, a pod on a node, and one with a finalizer."""
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
        """Remove the pod, as its node does once the containers have ended."""
        await self.api.client.delete(POD_KIND, "running", namespace=name, options=NOW)

    async def release(self, name: str) -> None:
        """Remove the finalizer of the held object."""
        await self.bench.change(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace=name)

    def content(self, name: str) -> set[str]:
        """The objects in a namespace."""
        return {f"{key.collection}/{key.name}" for key in self.api.store.newest_in(name)}

    async def complaints(self, name: str) -> dict[str, str]:
        """The messages of the namespace's conditions with status True, by type."""
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
    """An API server that does not terminate namespaces itself."""
    async with local_api(folder, ends_namespaces=False) as api:
        yield Spaces(api)
