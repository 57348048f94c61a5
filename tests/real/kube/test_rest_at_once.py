"""The REST client limits its concurrent requests."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from aiohttp import web

from pykubelet.api.scheme import PODS
from pykubelet.client.rest import RestClient, RestClientLimits

ClientOf = Callable[..., AbstractAsyncContextManager[RestClient]]


async def test_client_limits_concurrent_requests_but_not_watches(
    client_of: ClientOf, streamed: Callable[..., Awaitable[web.StreamResponse]]
) -> None:
    """Requests above the limit wait."""
    active, most, watching = 0, 0, asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal active, most
        if request.query.get("watch"):
            response = await streamed(request)
            watching.set()
            await asyncio.sleep(30)
            return response
        active += 1
        most = max(most, active)
        await asyncio.sleep(0.01)
        active -= 1
        return web.json_response({"kind": "Pod", "metadata": {"name": "web"}})

    async with (
        client_of(handler, RestClientLimits(at_once=3)) as client,
        client.watch(PODS, resource_version="1"),
        client.watch(PODS, resource_version="1"),
        client.watch(PODS, resource_version="1"),
    ):
        await watching.wait()
        found = await asyncio.gather(*(client.get(PODS, "web", namespace="default") for _ in range(30)))
    assert len(found) == 30
    assert most == 3
