"""Takes a connection away from the HTTP library and hands it to the node proxy.

In: a request that somebody else answers. Out: nothing more over HTTP; the bytes of the answer are theirs, and the
connection ends with it.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from pykubelet.apiserver.call import Call
from pykubelet.apiserver.http.reply import TEXT
from pykubelet.apiserver.http.targets import pairs, read_target
from pykubelet.apiserver.proxy.heads import asked_upgrade, request_head
from pykubelet.apiserver.proxy.node_proxy import NodeProxy, Pipe, splice

ReadBody = Callable[[web.BaseRequest], Awaitable[bytes]]


class PassingOn:
    """Answers requests by passing them on."""

    def __init__(self, proxy: NodeProxy, read_body: ReadBody) -> None:
        self._proxy, self._read_body = proxy, read_body

    async def connect(self, call: Call, rest: str, request: web.BaseRequest) -> web.StreamResponse:
        """Connect the caller to where the call leads; raises ApiError as long as nothing is sent."""
        raw_query = read_target(request.raw_path).raw_query
        target = self._proxy.target(call, pairs(raw_query), rest, raw_query)
        if target is None:
            return web.Response(headers={"Content-Type": TEXT})
        body = await self._read_body(request)
        server = await self._proxy.open(target)
        headers = tuple(request.headers.items())
        server.writer.write(request_head(target, request.method, headers, len(body)) + body)
        await splice(_taken_over(request), server, upgrades=bool(asked_upgrade(headers)))
        answered = _AlreadyAnswered()
        answered.force_close()
        return answered


class _AlreadyAnswered(web.StreamResponse):
    """What the HTTP library is given back: nothing is left to send."""

    async def prepare(self, _request: web.BaseRequest) -> AbstractStreamWriter | None:
        return None

    async def write_eof(self, _data: bytes | bytearray | memoryview = b"") -> None:
        return


class _TakenOver(asyncio.StreamReaderProtocol):
    """Reads the caller's bytes as they come; the HTTP library still hears of the end, to forget the connection."""

    def __init__(self, reader: asyncio.StreamReader, before: asyncio.BaseProtocol) -> None:
        super().__init__(reader)
        self._before = before

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._before.connection_lost(exc)


def _taken_over(request: web.BaseRequest) -> Pipe:
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the caller is gone")
    reader = asyncio.StreamReader()
    protocol = _TakenOver(reader, transport.get_protocol())
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    return Pipe(reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop()))
