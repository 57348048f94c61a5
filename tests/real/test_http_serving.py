"""The HTTP server closes the connections of clients that do not finish a request in time."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import trustme

from pykubelet.httpserver.listener import serving_context
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import HttpResponse, text_response
from pykubelet.httpserver.server import HttpServer, ServerLimits

LIMITS = ServerLimits(
    line_bytes=1024, field_bytes=1024, headers=10, idle_seconds=1.0, stop_seconds=1.0, stalled_seconds=1.0
)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The port of a server whose timeouts are one second."""

    async def respond(_: HttpRequest) -> HttpResponse:
        return text_response(200, "hello")

    context = serving_context()
    trustme.CA().issue_cert("localhost").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number: int = listener.getsockname()[1]
        server = HttpServer(respond, limits=LIMITS, malformed=text_response(400, ""))
        async with server.serving(listener, context):
            yield number


def anybody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "half a head"])
async def test_client_that_never_finishes_its_request_is_cut_off(port: int, head: bytes) -> None:
    """A head that comes byte by byte does not keep the connection open either."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=anybody())
    writer.write(head)
    ended = asyncio.ensure_future(reader.read())
    try:
        async with asyncio.timeout(20):
            while not ended.done():
                if head:
                    writer.write(b"x")
                await asyncio.sleep(0.1)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    assert b"hello" not in (b"" if ended.exception() else ended.result())
