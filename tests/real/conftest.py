"""A real HTTP server on loopback in front of an API in memory."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiohttp import web

from process_lab import unmount_below
from pykubelet.aio.clock import SystemClock
from pykubelet.api import schema, serializer
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import as_documents
from pykubelet.client.interface import PatchType, Selection
from pykubelet.testing.memory_api import MemoryApi

RESOURCES = {
    (resource.group, resource.plural): resource
    for resource in vars(schema).values()
    if isinstance(resource, Resource) and not resource.subresource
}


@pytest.fixture(scope="session", autouse=True)
def unmounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """At the end, nothing is mounted below the temporary folders, which could not be removed otherwise."""
    yield
    unmount_below(tmp_path_factory.getbasetemp())


class ServedApi:
    """Serves a MemoryApi at the URLs of Kubernetes."""

    def __init__(self, api: MemoryApi) -> None:
        self.api = api
        self.stopping = asyncio.Event()

    def app(self) -> web.Application:
        app = web.Application()
        for prefix in ("/api/{version}", "/apis/{group}/{version}"):
            for scope in ("/namespaces/{namespace}", ""):
                app.router.add_route("*", f"{prefix}{scope}/{{plural}}", self.handle)
                app.router.add_route("*", f"{prefix}{scope}/{{plural}}/{{name}}", self.handle)
                app.router.add_route("*", f"{prefix}{scope}/{{plural}}/{{name}}/{{subresource}}", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        parts = request.match_info
        kind = as_documents(RESOURCES[parts.get("group", ""), parts["plural"]])
        try:
            if request.method == "GET" and request.query.get("watch"):
                return await self.watch(request, kind)
            return web.json_response(await self.answer(request, kind))
        except ApiError as error:
            return web.json_response(error.to_status(), status=error.code)

    async def answer(self, request: web.Request, kind: Any) -> Any:
        parts = request.match_info
        name, scope = parts.get("name", ""), {"namespace": parts.get("namespace", "")}
        match request.method:
            case "GET" if name:
                return await self.api.get(kind, name, **scope)
            case "GET":
                return await self.list(request, kind)
            case "POST":
                return await self.api.create(kind, await request.json(), **scope)
            case "PATCH":
                body, subresource = await request.json(), parts.get("subresource", "")
                patch_type = PatchType(request.content_type)
                return await self.api.patch(kind, name, body, patch_type=patch_type, subresource=subresource, **scope)
            case "PUT":
                body, subresource = await request.json(), parts.get("subresource", "")
                return await self.api.replace(kind.resource, name, body, subresource=subresource, **scope)
            case _:
                options = serializer.decode(await request.read() or b"{}", DeleteOptions)
                await self.api.delete(kind, name, options=options, **scope)
                return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    async def list(self, request: web.Request, kind: Any) -> Any:
        query = request.query
        listing = await self.api.list(
            kind,
            namespace=request.match_info.get("namespace", ""),
            selection=selection_of(request),
            limit=int(query.get("limit", 0)),
            continue_token=query.get("continue", ""),
        )
        metadata = {"resourceVersion": listing.resource_version, "continue": listing.continue_token}
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": listing.items}

    async def watch(self, request: web.Request, kind: Any) -> web.StreamResponse:
        watch = self.api.watch(
            kind,
            namespace=request.match_info.get("namespace", ""),
            selection=selection_of(request),
            resource_version=request.query.get("resourceVersion", ""),
            timeout_seconds=float(request.query.get("timeoutSeconds", 60)),
        )
        async with watch as events:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            async for event in events:
                bookmark = {"kind": kind.resource.kind, "metadata": {"resourceVersion": event.resource_version}}
                line = {"type": event.type, "object": event.object or bookmark}
                await response.write(serializer.encode(line) + b"\n")
        return response


def selection_of(request: web.Request) -> Selection:
    return Selection(request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))


@pytest.fixture
async def served() -> AsyncIterator[tuple[MemoryApi, str]]:
    """An API in memory and the URL where it answers."""
    api = MemoryApi(SystemClock())
    runner = web.AppRunner(ServedApi(api).app(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield api, f"http://{host}:{port}"
    await runner.cleanup()
