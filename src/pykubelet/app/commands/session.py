"""A conversation with an API server, for as long as a command takes."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pykubelet.aio.clock import Clock, SystemClock
from pykubelet.api.resources import Resource
from pykubelet.api.wire import Document, decode_document
from pykubelet.app.kubeconfigs import access_found
from pykubelet.kube import discovery
from pykubelet.kube.client import EVERYTHING, Selection
from pykubelet.kube.command_plans import object_plan, page_plan
from pykubelet.kube.discovery import Served
from pykubelet.kube.request_plan import Answer, Plan, discovery_plan
from pykubelet.kube.rest import RestClient

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Session:
    """An API server to talk to, the namespace that is meant where none is named, and who hears its warnings."""

    client: RestClient
    namespace: str
    clock: Clock
    warn: Warn

    async def ask(self, plan: Plan) -> Answer:
        """Any request, and its answer."""
        answer = await self.client.ask(plan)
        for warning in answer.warnings:
            self.warn(warning)
        return answer

    async def document(self, plan: Plan) -> Document:
        """The document in the answer to a request."""
        document: Document = decode_document((await self.ask(plan)).body)
        return document

    async def catalogue(self) -> tuple[Served, ...]:
        """All that the server serves."""
        bodies = [(await self.client.ask(discovery_plan(path))).body for path in discovery.PATHS]
        return tuple(served for body in bodies for served in discovery.read_catalogue(body))

    async def get(self, resource: Resource, namespace: str, name: str) -> Document:
        """One object."""
        return await self.document(object_plan(resource, namespace, name, as_table=False))

    async def list(self, resource: Resource, namespace: str = "", selection: Selection = EVERYTHING) -> list[Document]:
        """All objects, each with its kind; an empty namespace means every namespace."""
        found = [page async for page in self.pages(resource, namespace, selection, as_table=False)]
        named = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**named, **item} for page in found for item in page.get("items") or ()]

    async def pages(
        self, resource: Resource, namespace: str, selection: Selection, *, as_table: bool
    ) -> AsyncIterator[Document]:
        """The pages of a list."""
        token = ""
        while True:
            page = await self.document(page_plan(resource, namespace, selection, token, as_table=as_table))
            yield page
            token = (page.get("metadata") or {}).get("continue", "")
            if not token:
                return


@asynccontextmanager
async def open_session(kubeconfig: Path | None, namespace: str, warn: Warn) -> AsyncIterator[Session]:
    """Talk to the server of a kubeconfig; CannotStart without one."""
    clock = SystemClock()
    access = access_found(kubeconfig, clock)
    async with RestClient(access, clock=clock) as client:
        yield Session(client, namespace or access.namespace, clock, warn)
