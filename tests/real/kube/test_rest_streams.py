"""Responses of the REST client with code and warnings, streamed bodies, and WebSockets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest
from aiohttp import WSMsgType, web

from pykubelet.api.errors import BadRequest, Forbidden, NotFound, NotReached
from pykubelet.client.request import RestRequest
from pykubelet.client.rest import RestClient

ClientOf = Callable[..., AbstractAsyncContextManager[RestClient]]
PLAN = RestRequest("GET", "/api/v1/namespaces/default/pods/web/exec?command=date")


async def echo(request: web.Request) -> web.StreamResponse:
    """Echo each message, and close at the message `end`."""
    socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.TEXT or message.data == b"end":
            break
        if message.data == b"words":
            await socket.send_str("words")
        else:
            await socket.send_bytes(message.data)
    await socket.close()
    return socket


async def test_answer_has_its_code_and_warnings(client_of: ClientOf) -> None:
    """They come with the body."""

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(status=201, body=b"{}", headers={"Warning": '299 - "be careful"'})

    async with client_of(handle) as client:
        answer = await client.ask(PLAN)
    assert (answer.code, answer.body, answer.warnings) == (201, b"{}", ("be careful",))


async def test_body_is_given_as_it_comes(client_of: ClientOf) -> None:
    """The first chunk arrives before the server writes the second."""
    go, gone = asyncio.Event(), asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await go.wait()
        await response.write(b"second")
        gone.set()
        return response

    async with asyncio.timeout(30), client_of(handle) as client, client.stream(PLAN) as chunks:
        pieces: AsyncIterator[bytes] = aiter(chunks)
        assert await anext(pieces) == b"first"
        go.set()
        assert await anext(pieces) == b"second"
        assert [piece async for piece in pieces] == []
        assert gone.is_set()


async def test_refused_stream_is_an_error(client_of: ClientOf) -> None:
    """Entering the context raises the server's error."""

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.json_response(NotFound("no such pod").to_status(), status=404)

    async with client_of(handle) as client:
        with pytest.raises(NotFound, match="no such pod"):
            async with client.stream(PLAN):
                pytest.fail("nothing is to be read")


async def test_web_socket_carries_messages_both_ways(client_of: ClientOf) -> None:
    """The subprotocol is one that both sides support; `receive` returns None when the other side has closed."""
    known = ("v5.channel.k8s.io", "v4.channel.k8s.io")
    async with asyncio.timeout(30), client_of(echo) as client, client.connect(PLAN, known) as socket:
        assert socket.protocol == "v4.channel.k8s.io"
        for message in (b"hello", b"", b"x" * 100_000, b"words"):
            await socket.send(message)
            assert await socket.receive() == message
        await socket.send(b"end")
        assert await socket.receive() is None


@pytest.mark.parametrize("error", [BadRequest("container nobody is not valid"), Forbidden("you may not")], ids=str)
async def test_refused_web_socket_is_the_servers_error(client_of: ClientOf, error: BadRequest | Forbidden) -> None:
    """The error has the message of the Status body, which a failed handshake alone does not give."""

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.json_response(error.to_status(), status=error.code)

    async with client_of(handle) as client:
        with pytest.raises(type(error), match=error.message):
            async with client.connect(PLAN, ("v5.channel.k8s.io",)):
                pytest.fail("there is no connection")


async def test_server_without_web_socket_support_is_an_error(client_of: ClientOf) -> None:
    """The server answers the handshake with 200."""

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(text="hello")

    async with client_of(handle) as client:
        with pytest.raises(BadRequest, match="the server answered 200"):
            async with client.connect(PLAN, ("v5.channel.k8s.io",)):
                pytest.fail("there is no connection")


async def test_web_socket_on_a_broken_connection_raises_not_reached(client_of: ClientOf) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with client_of(handle) as client:
        with pytest.raises(NotReached):
            async with client.connect(PLAN, ("v5.channel.k8s.io",)):
                pytest.fail("there is no connection")
