"""The REST client over real sockets: verbs, errors, limits, retries, and broken servers."""

import asyncio
import gzip
import json
import re
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from pykubelet.aio.clock import SystemClock
from pykubelet.api.errors import (
    BadRequest,
    Conflict,
    InternalError,
    NotFound,
    NotReached,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import PODS, as_documents
from pykubelet.client.interface import PatchType, Selection, now_if_uid
from pykubelet.client.rest import RestClient, RestClientLimits
from pykubelet.client.transport import Credential, RestConfig, UserCredentials

ClientOf = Callable[..., AbstractAsyncContextManager[RestClient]]
Served = Callable[..., AbstractAsyncContextManager[str]]
Streamed = Callable[..., Awaitable[web.StreamResponse]]
WatchLine = Callable[..., bytes]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default", "resourceVersion": "7"}}


async def test_client_speaks_the_verbs(client_of: ClientOf) -> None:
    """Each verb sends the method, path, query, body and content type that the API expects."""
    seen: list[tuple[str, str, str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        text = await request.text()
        seen.append((request.method, request.raw_path, request.headers.get("Content-Type", ""), text))
        assert request.headers["User-Agent"].startswith("pykubelet/")
        assert request.headers["Accept"] == "application/json"
        if request.method == "GET" and request.path.endswith("/pods"):
            return web.json_response({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [POD]})
        return web.json_response(POD, status=201 if request.method == "POST" else 200)

    async with client_of(handler) as client:
        assert (await client.get(PODS, "web", namespace="default", resource_version="0")).metadata.name == "web"
        page = await client.list(PODS, selection=Selection(fields="spec.nodeName=n1"), limit=500)
        assert (page.items[0].metadata.name, page.resource_version, page.continue_token) == ("web", "9", "more")
        await client.create(PODS, Pod(metadata=ObjectMeta(name="web")), namespace="default")
        body = {"status": {"phase": "Running"}}
        await client.patch(PODS, "web", body, namespace="default", subresource="status")
        await client.patch(PODS, "web", [], namespace="default", patch_type=PatchType.JSON)
        await client.delete(PODS, "web", namespace="default", options=now_if_uid("u"))
        assert (await client.get(as_documents(PODS.resource), "web", namespace="default")) == POD
    one = "/api/v1/namespaces/default/pods/web"
    assert [(method, path, kind) for method, path, kind, _ in seen] == [
        ("GET", one + "?resourceVersion=0", ""),
        ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=500", ""),
        ("POST", "/api/v1/namespaces/default/pods", "application/json"),
        ("PATCH", one + "/status", "application/strategic-merge-patch+json"),
        ("PATCH", one, "application/json-patch+json"),
        ("DELETE", one, "application/json"),
        ("GET", one, ""),
    ]
    assert json.loads(seen[5][3])["preconditions"] == {"uid": "u"}


async def test_client_raises_the_servers_errors(client_of: ClientOf) -> None:
    """The error class, message and details come from the Status body."""
    answers: list[Any] = [
        NotFound('pods "web" not found', details={"name": "web"}),
        Conflict("changed"),
        ServiceUnavailable("not ready"),
    ]

    async def handler(_: web.Request) -> web.Response:
        error = answers[0]
        return web.json_response(error.to_status(), status=error.code)

    async with client_of(handler) as client:
        while answers:
            with pytest.raises(type(answers[0])) as caught:
                await client.get(PODS, "web", namespace="default")
            assert caught.value.message == answers[0].message
            assert caught.value.details == answers[0].details
            del answers[0]


async def test_client_reads_gzip_and_bounds_what_it_unpacks(client_of: ClientOf) -> None:
    """A small compressed response may unpack to a huge one."""

    async def handler(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "gzip"
        big = "x" * (5_000_000 if request.path.endswith("bomb") else 5)
        text = json.dumps({**POD, "note": big}).encode()
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        return web.Response(body=gzip.compress(text), headers=headers)

    async with client_of(handler, RestClientLimits(answer_bytes=1_000_000)) as client:
        assert (await client.get(PODS, "web", namespace="default")).metadata.name == "web"
        with pytest.raises(InternalError, match="more than 1000000 bytes"):
            await client.get(PODS, "bomb", namespace="default")
        assert (await client.get(PODS, "web", namespace="default")).metadata.name == "web"


async def test_client_retries_after_429_with_retry_after(client_of: ClientOf) -> None:
    """It retries at most ten times, and not if the wait exceeds the request timeout."""
    calls = 0
    after = "0"

    async def handler(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        if after == "0" and calls in {3, 20}:
            return web.json_response(POD)
        return web.Response(status=429, headers={"Retry-After": after}, text="slow down")

    async with client_of(handler, RestClientLimits(request_seconds=5)) as client:
        await client.get(PODS, "web", namespace="default")
        assert calls == 3
        with pytest.raises(TooManyRequests):
            await client.patch(PODS, "web", {}, namespace="default")
        assert calls == 3 + 11
        after = "6"
        with pytest.raises(TooManyRequests, match="slow down") as caught:
            await client.get(PODS, "web", namespace="default")
        assert (calls, caught.value.retry_after_seconds) == (15, 6)


async def test_client_repeats_no_write_after_an_unclear_failure(client_of: ClientOf) -> None:
    calls: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(request.method)
        if len(calls) == 3:
            return web.json_response(POD)
        return web.Response(status=504, headers={"Retry-After": "0"})

    async with client_of(handler) as client:
        with pytest.raises(Exception, match="504"):
            await client.create(PODS, Pod(), namespace="default")
        await client.get(PODS, "web", namespace="default")
    assert calls == ["POST", "GET", "GET"]


class EverNew:
    """Credentials that return a new token each time."""

    def __init__(self) -> None:
        self.given = 0

    async def current(self) -> Credential:
        self.given += 1
        return Credential(f"Bearer {self.given}")

    async def rejected(self, credential: Credential) -> None:
        pass


async def test_client_tries_new_credentials_only_once(served: Served) -> None:
    """A server that rejects every token gets no endless retries."""
    calls = 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.Response(status=401)

    async with served(handler) as url, RestClient(RestConfig(url, EverNew()), clock=SystemClock()) as client:
        with pytest.raises(Unauthorized):
            await client.create(PODS, Pod(), namespace="default")
    assert calls == 2


async def test_client_follows_no_redirect(client_of: ClientOf) -> None:
    """A redirect could send our token to another server."""

    async def handler(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/elsewhere")

    async with client_of(handler) as client:
        with pytest.raises(BadRequest, match="302"):
            await client.get(PODS, "web", namespace="default")


async def test_requests_are_counted_by_answer(client_of: ClientOf) -> None:
    """Requests without a response count as `<error>`; the host label has no other parts of the URL."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("silent"):
            await asyncio.sleep(60)
        return web.json_response(POD) if request.path.endswith("web") else web.Response(status=404, text="{}")

    async with client_of(handler, RestClientLimits(request_seconds=0.2)) as client:
        await client.get(PODS, "web", namespace="default")
        for name, error in (("none", NotFound), ("silent", NotReached)):
            with pytest.raises(error):
                await client.get(PODS, name, namespace="default")
        registry = CollectorRegistry()
        registry.register(client.counts)
    page = generate_latest(registry).decode()
    for code in ("200", "404", "<error>"):
        assert re.search(f'rest_client_requests_total{{code="{code}",host="127.0.0.1:[0-9]+",method="GET"}} 1.0', page)
    assert re.search('rest_client_request_duration_seconds_count{host="127.0.0.1:[0-9]+",verb="GET"} 3.0', page)


async def test_client_reports_a_server_that_is_not_there_or_too_slow(
    served: Served, client_of: ClientOf, streamed: Streamed
) -> None:
    """A refused, aborted, cut or silent connection raises NotReached with its cause."""

    async def handler(request: web.Request) -> web.StreamResponse:
        match request.path.rpartition("/")[2]:
            case "silent":
                await asyncio.sleep(60)
            case "drip":
                response = await streamed(request, b"{")
                await asyncio.sleep(60)
                return response
            case "cut":
                return await streamed(request, b'{"kind":', cut=True)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with client_of(handler, RestClientLimits(request_seconds=0.2)) as client:
        for name in ("silent", "drip", "cut", "abort"):
            with pytest.raises(NotReached, match=f"GET /api/v1/namespaces/default/pods/{name}: ") as caught:
                await client.get(PODS, name, namespace="default")
            assert caught.value.__cause__ is not None
    async with served(handler) as url:
        pass
    async with RestClient(RestConfig(url, UserCredentials()), clock=SystemClock()) as client:
        with pytest.raises(NotReached, match="cannot connect"):
            await client.get(PODS, "web", namespace="default")
        with pytest.raises(NotReached):
            async with client.watch(PODS):
                pass


async def test_client_rejects_responses_that_no_api_server_sends(client_of: ClientOf) -> None:
    """An HTML page is an error, not an object."""

    async def handler(_: web.Request) -> web.Response:
        return web.Response(text="<html>", content_type="text/html")

    async with client_of(handler) as client:
        with pytest.raises(InternalError, match="the server's Pod cannot be read"):
            await client.get(PODS, "web", namespace="default")
        async with client.watch(PODS) as events:
            # The page has no newline, so the error only appears at its end.
            with pytest.raises(NotReached, match="middle of an event"):
                await anext(events)


async def test_client_shows_no_credentials_in_errors_of_the_transport() -> None:
    """The HTTP library's own exception has the headers of the request."""

    async def garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"no HTTP at all\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(garbage, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    access = RestConfig(f"http://127.0.0.1:{port}", UserCredentials(authorization="Bearer s3cret"))
    async with server, RestClient(access, clock=SystemClock()) as client:
        with pytest.raises(NotReached) as caught:
            await client.get(PODS, "web", namespace="default")
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
