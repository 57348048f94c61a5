"""Objects that follow manifest files, on an in-process API server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.errors import NotFound
from pykubelet.api.schema import CONFIG_MAPS, NAMESPACES, Resource
from pykubelet.api.scheme import as_documents
from pykubelet.api.serializer import Document
from pykubelet.client.interface import ControllerClient
from pykubelet.client.manifests.last_known_good import SourceProblem
from pykubelet.controllers.manifests.controller import ManifestController

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
WIDGET_DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {size: {type: integer, minimum: 1}}
"""


def config_map(name: str, value: str = "1", *, namespace: str = "") -> str:
    place = f", namespace: {namespace}" if namespace else ""
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}{place}}}\ndata: {{v: '{value}'}}\n"


def namespace(name: str) -> str:
    return f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"


def widget(name: str, size: Any = 1) -> str:
    return f"apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: {name}}}\nsize: {size}\n"


class Told:
    """Keeps the problems that users would see."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}
        self.lines: list[str] = []

    def report(self, problem: SourceProblem) -> None:
        self.open[Path(problem.where).name] = problem.message

    def clear(self, source: str, where: str) -> None:
        del self.open[Path(where).name]


class Cluster:
    """An API server, its objects, and a controller that can be started and stopped."""

    def __init__(self, client: ControllerClient) -> None:
        self.client = client
        self.told = Told()

    @asynccontextmanager
    async def following(self, *paths: Path) -> AsyncIterator[None]:
        """Runs a new manifest controller; yields once its first pass is done."""
        self.told = Told()
        controller = ManifestController(paths=paths, client=self.client, problems=self.told, say=self.told.lines.append)
        ready = asyncio.Event()
        async with running({"manifests": with_ready_event(controller.run, ready)}):
            await ready.wait()
            yield

    async def get(self, resource: Resource, name: str, *, namespace: str = "default") -> Document | None:
        try:
            return await self.client.get(as_documents(resource), name, namespace=namespace)
        except NotFound:
            return None

    async def values(self, *, namespace: str = "default") -> dict[str, str]:
        """The values of the config maps, by name."""
        found = await self.client.list(as_documents(CONFIG_MAPS), namespace=namespace)
        return {item["metadata"]["name"]: item["data"]["v"] for item in found.items if "v" in item.get("data", {})}

    async def expect(self, *, namespace: str = "default", **values: str) -> None:
        """Wait until exactly these config maps are there."""

        async def holds() -> bool:
            return await self.values(namespace=namespace) == values

        await self.until(holds)

    async def until_told(self, place: str, text: str) -> None:
        async def holds() -> bool:
            return text in self.told.open.get(place, "")

        await self.until(holds)

    async def until_healed(self) -> None:
        async def holds() -> bool:
            return not self.told.open

        await self.until(holds)

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        try:
            async with asyncio.timeout(60):
                while not await holds():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{await self.values()}, {self.told.open}, {self.told.lines}") from None

    async def put(self, name: str, value: str = "1") -> None:
        """Create a config map directly, not from a manifest."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}
        await self.client.create(as_documents(CONFIG_MAPS), body, namespace="default")

    async def delete_namespace(self, name: str) -> None:
        await self.client.delete(as_documents(NAMESPACES), name)
