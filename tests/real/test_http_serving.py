"""The HTTP server closes connections of clients that do not finish a request in time, and sends responses in parts."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
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


CLOSED: list[str] = []
"""The targets whose parts are no longer made."""


async def parts(target: str) -> AsyncGenerator[bytes, None]:
    try:
        yield b"first "
        if target == "/broken":
            raise ValueError("the next part cannot be made")
        for _ in range(100 if target == "/long" else 1):
            yield b"x" * 300_000
    finally:
        CLOSED.append(target)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The port of a server whose timeouts are one second."""

    async def respond(request: HttpRequest) -> HttpResponse:
        if request.target == "/":
            return text_response(200, "hello")
        return HttpResponse(200, b"", parts=parts(request.target))

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


async def read_all(port: int, target: str, most: int = -1) -> bytes:
    """What the server sends until it closes the connection, or the first bytes of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=anybody())
    try:
        writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(20):
            return await reader.read(most)
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def test_response_in_parts_is_whole(port: int) -> None:
    text = await read_all(port, "/parts")
    assert text.count(b"x") == 300_000
    assert text.endswith(b"\r\n0\r\n\r\n")


async def test_response_whose_parts_end_with_an_error_is_visibly_incomplete(port: int) -> None:
    """The connection ends without the last chunk, and the server goes on."""
    assert not (await read_all(port, "/broken")).endswith(b"0\r\n\r\n")
    assert b"hello" in await read_all(port, "/")


async def test_parts_are_not_made_for_a_client_that_is_gone(port: int) -> None:
    """Whatever they hold is released."""
    CLOSED.clear()
    assert await read_all(port, "/long", 100)
    async with asyncio.timeout(20):
        while not CLOSED:
            await asyncio.sleep(0.05)
    assert CLOSED == ["/long"]
