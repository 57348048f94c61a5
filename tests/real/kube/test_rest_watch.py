"""Watches over real sockets: split events, broken connections, line limits, and a reflector on top."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest
from aiohttp import web

from pykubelet.aio.clock import SystemClock
from pykubelet.api.errors import (
    Expired,
    InternalError,
    NotReached,
)
from pykubelet.api.generated.core import Pod
from pykubelet.api.scheme import PODS
from pykubelet.client.reflector import Reflector
from pykubelet.client.rest import RestClient, RestClientLimits

ClientOf = Callable[..., AbstractAsyncContextManager[RestClient]]
Served = Callable[..., AbstractAsyncContextManager[str]]
Streamed = Callable[..., Awaitable[web.StreamResponse]]
WatchLine = Callable[..., bytes]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default", "resourceVersion": "7"}}


async def test_watch_streams_events_however_they_are_cut(
    client_of: ClientOf, streamed: Streamed, watch_line: WatchLine
) -> None:
    """Chunk borders may be anywhere; the query has the parameters of a watch."""
    lines = b"".join(
        [
            watch_line("ADDED", 8),
            watch_line("MODIFIED", 9),
            b"\n",
            watch_line("RENAMED", 10),
            watch_line("BOOKMARK", 12),
        ]
    )
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.raw_path)
        return await streamed(request, *(lines[start : start + 7] for start in range(0, len(lines), 7)))

    async with client_of(handler) as client, client.watch(PODS, namespace="default", resource_version="7") as events:
        found = [(event.type, event.resource_version, event.object is None) async for event in events]
    assert found == [("ADDED", "8", False), ("MODIFIED", "9", False), ("BOOKMARK", "12", True)]
    path, _, seconds = seen[0].rpartition("timeoutSeconds=")
    assert path == "/api/v1/namespaces/default/pods?watch=true&allowWatchBookmarks=true&resourceVersion=7&"
    assert 300 <= int(seconds) < 600


async def test_watch_raises_the_error_in_the_stream_and_those_before_it(
    client_of: ClientOf, streamed: Streamed
) -> None:
    error = Expired("too old resource version: 1 (5)").to_status()

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.query.get("resourceVersion") == "1":
            return await streamed(request, json.dumps({"type": "ERROR", "object": error}).encode() + b"\n")
        return web.json_response(error, status=410)

    async with client_of(handler) as client:
        for version in ("1", "2"):
            with pytest.raises(Expired, match="too old resource version"):
                async with client.watch(PODS, resource_version=version) as events:
                    await anext(events)


@pytest.mark.parametrize("rest", [b'{"type":"MOD', b""], ids=["within an event", "between events"])
async def test_watch_cut_by_the_network_is_not_reached_after_its_whole_events(
    rest: bytes, client_of: ClientOf, streamed: Streamed, watch_line: WatchLine
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await streamed(request, watch_line("ADDED", 8) + rest, cut=True)

    async with client_of(handler) as client, client.watch(PODS) as events:
        assert (await anext(events)).resource_version == "8"
        with pytest.raises(NotReached):
            await anext(events)


async def test_watch_refuses_a_line_without_end(client_of: ClientOf, streamed: Streamed) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await streamed(request, *([b"x" * 1000] * 200))

    async with client_of(handler, RestClientLimits(line_bytes=100_000)) as client:
        with pytest.raises(InternalError, match="more than 100000 bytes"):
            async with client.watch(PODS) as events:
                await anext(events)


async def test_watch_takes_a_long_line(client_of: ClientOf, streamed: Streamed, watch_line: WatchLine) -> None:
    """A line of 3 MB exceeds the usual limit of line readers."""
    long = watch_line("ADDED", 8).replace(b'"kind": "Pod"', b'"kind": "Pod", "note": "' + b"x" * 3_000_000 + b'"')

    async def handler(request: web.Request) -> web.StreamResponse:
        return await streamed(request, long)

    async with client_of(handler) as client, client.watch(PODS) as events:
        assert (await anext(events)).resource_version == "8"


async def test_client_ends_a_watch_that_exceeds_its_timeout(
    client_of: ClientOf, streamed: Streamed, watch_line: WatchLine
) -> None:
    """A server or network that forgot the watch must not block the reflector forever."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = await streamed(request, watch_line("ADDED", 8))
        await asyncio.sleep(60)
        return response

    limits = RestClientLimits(watch_grace_seconds=0.1)
    async with client_of(handler, limits) as client, client.watch(PODS, timeout_seconds=0.1) as events:
        await anext(events)
        with pytest.raises(NotReached, match="no response in time"):
            await anext(events)


async def test_watch_closes_its_connection_when_left_or_cancelled(
    client_of: ClientOf, streamed: Streamed, watch_line: WatchLine
) -> None:
    """The server sees the connection close promptly."""
    closed = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = await streamed(request, watch_line("ADDED", 8))
        while request.transport is not None and not request.transport.is_closing():
            await asyncio.sleep(0.01)
        closed.set()
        return response

    async with client_of(handler) as client:
        async with client.watch(PODS) as events:
            await anext(events)
        await asyncio.wait_for(closed.wait(), 2)
        closed.clear()

        async def follow() -> None:
            async with client.watch(PODS) as events:
                async for _ in events:
                    pass

        task = asyncio.create_task(follow())
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.wait_for(closed.wait(), 2)


async def test_many_watches_leave_room_for_requests(
    client_of: ClientOf, streamed: Streamed, watch_line: WatchLine
) -> None:
    """The connection pool has no limit that watches could exhaust."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response(POD)
        response = await streamed(request, watch_line("ADDED", 8))
        await asyncio.sleep(60)
        return response

    async with client_of(handler) as client:
        tasks = []

        async def follow(opened: asyncio.Event) -> None:
            async with client.watch(PODS) as events:
                async for _ in events:
                    opened.set()

        for _ in range(120):
            opened = asyncio.Event()
            tasks.append(asyncio.create_task(follow(opened)))
            await opened.wait()
        async with asyncio.timeout(2):
            assert (await client.get(PODS, "web", namespace="default")).metadata.name
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Names:
    """A sink that records the names of objects."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.changed = asyncio.Event()

    def added(self, obj: Pod) -> None:
        self.heard.append(f"+{obj.metadata.name}")
        self.changed.set()

    def modified(self, obj: Pod) -> None:
        self.heard.append(f"~{obj.metadata.name}")
        self.changed.set()

    def deleted(self, obj: Pod) -> None:
        self.heard.append(f"-{obj.metadata.name}")
        self.changed.set()

    def synced(self) -> None:
        self.heard.append("synced")


async def test_reflector_follows_over_http_through_cuts(
    client_of: ClientOf, streamed: Streamed, watch_line: WatchLine
) -> None:
    """It lists, watches, loses the connection in the middle of an event, and resumes."""
    watches: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": [POD]})
        watches.append(request.query["resourceVersion"])
        if len(watches) == 1:
            return await streamed(request, watch_line("ADDED", 8, "new"), b'{"type":"MODI', cut=True)
        response = await streamed(request, watch_line("MODIFIED", 9, "new"), watch_line("DELETED", 10, "new"))
        await asyncio.sleep(60)
        return response

    async with client_of(handler) as client:
        sink = Names()
        reflector = Reflector(client=client, kind=PODS, sink=sink, clock=SystemClock())
        task = asyncio.create_task(reflector.run(asyncio.Event()))
        async with asyncio.timeout(5):
            while "-new" not in sink.heard:
                sink.changed.clear()
                await sink.changed.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert sink.heard == ["+web", "synced", "+new", "~new", "-new"]
    assert watches == ["7", "8"]
