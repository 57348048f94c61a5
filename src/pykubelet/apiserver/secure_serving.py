"""The API server's HTTPS server: what the handler chain decides, sent over HTTP.

Upstream: staging/src/k8s.io/apiserver/pkg/server/secure_serving.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go
"""

import asyncio
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial

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
from pykubelet.apiserver.handlers.responsewriters import accepts_gzip, status_response, warning_headers
from pykubelet.apiserver.request import ApiRequest
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import HandlerResult, Handover, HttpResponse, HttpStream, Write
from pykubelet.httpserver.server import HttpServer, ServerLimits

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
            if len(result.body) > _GZIP_BYTES and accepts_gzip(request.headers.get("Accept-Encoding", "")):
                return await _compressed(result)
            return result
        ended = partial(self._chain.long_ended, request, context)
        if isinstance(result, WatchResponse):
            send = partial(self._send_events, result, context)
            return HttpStream(
                result.content_type, send, warning_headers(result.stream.warnings), ended, ends_cleanly=True
            )
        assert isinstance(result, ProxiedRequest)
        return Handover(partial(self._proxy, result, request), ended)

    async def _send_events(self, watch: WatchResponse, context: RequestContext, write: Write) -> None:
        async with aclosing(watch.stream.batches) as batches:
            async for batch in batches:
                if batch:
                    is_slow = watch.converts and len(batch) > _CONVERTED_AT_ONCE
                    await write(await asyncio.to_thread(watch.lines, batch) if is_slow else watch.lines(batch))
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


async def _compressed(reply: HttpResponse) -> HttpResponse:
    """The response compressed with gzip, in a thread: zlib releases the interpreter lock."""
    body = await asyncio.to_thread(zlib.compress, reply.body, _GZIP_LEVEL, _GZIP_WINDOW)
    return reply._replace(
        body=body, headers=(*reply.headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
    )
