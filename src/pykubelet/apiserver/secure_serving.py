"""The API server's HTTPS server: what the handler chain decides, sent over HTTP.

Upstream: staging/src/k8s.io/apiserver/pkg/server/secure_serving.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go
"""

import asyncio
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import TypeVar

from aiohttp import web

from pykubelet.api.errors import BadRequest
from pykubelet.apiserver.filters import limits
from pykubelet.apiserver.filters.chain import (
    HandlerChain,
    ProxiedRequest,
    RequestContext,
    WatchResponse,
    error_response,
)
from pykubelet.apiserver.handlers.responsewriters import accepts_gzip, in_parts, status_response, warning_headers
from pykubelet.apiserver.request import ApiRequest, SerializedEvent
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import HandlerResult, Handover, HttpResponse, HttpStream, Write
from pykubelet.httpserver.server import HttpServer, ServerLimits
from pykubelet.httpserver.upgrade import OneWayWebSocket, is_web_socket

T = TypeVar("T")
Connect = Callable[[ApiRequest, str, web.BaseRequest], Awaitable[web.StreamResponse]]
"""Proxies a request: gets the API request, the rest of its path, and the HTTP request as received."""

# Upstream's threshold and level: for smaller bodies, compression costs more than it saves.
_GZIP_BYTES = 128 * 1024
_GZIP_LEVEL = 1
_GZIP_WINDOW = 31
# Watch events of which a few milliseconds make tables or protobuf; more are converted in a thread.
_CONVERTED_AT_ONCE = 32
# How long requests in flight may take when the server stops.
STOP_SECONDS = 5.0


class ApiHttpServer:
    def __init__(
        self,
        chain: HandlerChain,
        *,
        connect: Mapping[tuple[str, str], Connect],
        new_id: Callable[[], str],
        accepts: Callable[[str], bool] | None = None,
    ) -> None:
        """`connect` has the handlers of proxied subresources, such as `pods` and `exec`.

        With `accepts`, connections from other addresses are closed before TLS.
        """
        self._chain, self._connect = chain, connect
        malformed = BadRequest("the request is not valid HTTP, or its headers are too large")
        self._server = HttpServer(
            self._answer,
            limits=ServerLimits(
                line_bytes=limits.MAX_LINE_BYTES,
                field_bytes=limits.MAX_LINE_BYTES,
                headers=limits.MAX_HEADERS,
                idle_seconds=limits.IDLE_SECONDS,
                stop_seconds=STOP_SECONDS,
                stalled_seconds=limits.STALLED_SECONDS,
                body_bytes=limits.MAX_BODY_BYTES,
            ),
            malformed=status_response(malformed, "", {}, ""),
            headers=(("Cache-Control", "no-cache, private"),),
            new_id=new_id,
            accepts=accepts,
        )

    def serving(self, listener: socket.socket, tls: ssl.SSLContext) -> AbstractAsyncContextManager[None]:
        """Serve for the duration of the context; at its end, watches end and requests in flight are answered."""
        return self._server.serving(listener, tls)

    async def _answer(self, request: HttpRequest) -> HandlerResult:
        result, context = await self._chain.answer(request)
        if type(result) is HttpResponse:
            is_large = result.parts is not None or len(result.body) > _GZIP_BYTES
            if is_large and accepts_gzip(request.headers.get("Accept-Encoding", "")):
                return await _compressed(result)
            return result
        ended = partial(self._chain.long_ended, request, context)
        if isinstance(result, WatchResponse):
            if is_web_socket(request.headers):
                send = partial(self._send_messages, result, context)
                web_socket = OneWayWebSocket(send, limits.STALLED_SECONDS, is_binary=result.is_binary)
                return Handover(web_socket.serve, ended)
            send = partial(self._send_events, result, context)
            return HttpStream(
                result.content_type, send, warning_headers(result.stream.warnings), ended, ends_cleanly=True
            )
        assert isinstance(result, ProxiedRequest)
        return Handover(partial(self._proxy, result, request), ended)

    async def _send_events(self, watch: WatchResponse, context: RequestContext, write: Write) -> None:
        async with aclosing(watch.stream.batches) as batches:
            async for batch in batches:
                # A collection's first events may be as large as all its objects.
                for events in in_parts(batch, _event_bytes):
                    await write(await _converted(watch, events, watch.lines))
                if batch:
                    self._chain.sent(context, len(batch))

    async def _send_messages(self, watch: WatchResponse, context: RequestContext, write: Write) -> None:
        """Sends each event as one message."""
        async with aclosing(watch.stream.batches) as batches:
            async for batch in batches:
                for events in in_parts(batch, _event_bytes):
                    for message in await _converted(watch, events, watch.messages):
                        await write(message)
                self._chain.sent(context, len(batch))

    async def _proxy(
        self, proxied: ProxiedRequest, received: HttpRequest, request: web.BaseRequest
    ) -> web.StreamResponse | HttpResponse:
        api_request = proxied.request
        connect = self._connect[api_request.served.resource.group_resource, api_request.subresource]
        try:
            return await connect(api_request, proxied.rest, request)
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets a Status
            return error_response(error, received)


async def _converted(
    watch: WatchResponse, events: Sequence[SerializedEvent], convert: Callable[[Sequence[SerializedEvent]], T]
) -> T:
    """What is sent for events; many are converted in a thread."""
    is_slow = watch.converts and len(events) > _CONVERTED_AT_ONCE
    return await asyncio.to_thread(convert, events) if is_slow else convert(events)


def _event_bytes(event: SerializedEvent) -> int:
    return len(event.object)


async def _compressed(reply: HttpResponse) -> HttpResponse:
    """The response compressed with gzip, in a thread: zlib releases the interpreter lock."""
    headers = (*reply.headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
    if reply.parts is not None:
        return reply._replace(parts=_compressed_parts(reply.parts), headers=headers)
    body = await asyncio.to_thread(zlib.compress, reply.body, _GZIP_LEVEL, _GZIP_WINDOW)
    return reply._replace(body=body, headers=headers)


async def _compressed_parts(parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    packer = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WINDOW)
    async with aclosing(parts):
        async for part in parts:
            if packed := await asyncio.to_thread(packer.compress, part):
                yield packed
    yield packer.flush()
