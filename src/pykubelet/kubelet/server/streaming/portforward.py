"""Serves port-forward: each connection to a pod is a pair of streams, for data and for errors.

Over SPDY a client opens any number of pairs, identified by a request ID. Over WebSocket channels there is one pair for
each port of the query. Other than upstream, a connection that the pod resets is reset for the client instead of reported
as an error, which would end kubectl.

Upstream: staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward/httpstream.go,
staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go
"""

import asyncio
import struct
from contextlib import suppress

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import background_task
from pykubelet.httpserver.spdy.connection import ByteLink, SpdyConnection, SpdyStream
from pykubelet.httpserver.spdy.frames import Headers
from pykubelet.kubelet.server.streaming.session import ForwardSession, stream_port
from pykubelet.kubelet.server.streaming.wsstream import ChannelConnection, ChannelProtocol, MessageLink

log = get_logger(__name__)

STREAM_CREATION_SECONDS = 30.0
# A stalled connection to a pod must not block the others for longer.
PATIENCE_SECONDS = 30.0

_DATA, _ERROR = "data", "error"


class _Pair:
    """The two streams of one connection, as far as they are open."""

    def __init__(self) -> None:
        self.streams: dict[str, SpdyStream] = {}
        self.complete = asyncio.Event()

    def add(self, stream: SpdyStream) -> None:
        self.streams[stream.headers["streamtype"]] = stream
        if len(self.streams) == 2:
            self.complete.set()


class SpdyForward:
    """Serves the stream pairs of one client over SPDY."""

    def __init__(self, session: ForwardSession, link: ByteLink) -> None:
        self._session = session
        self._connection = SpdyConnection(link, patience_seconds=PATIENCE_SECONDS)
        self._pairs: dict[str, _Pair] = {}

    async def serve(self) -> None:
        """Serve until the client disconnects; the caller closes the link."""
        tasks: set[asyncio.Task[None]] = set()

        def opened(stream: SpdyStream) -> None:
            request_id = _request_id(stream)
            pair = self._pairs.get(request_id)
            if pair is None:
                pair = self._pairs[request_id] = _Pair()
                task = group.create_task(self._serve_pair(request_id, pair), name=f"port-forward {request_id}")
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            pair.add(stream)

        async with asyncio.TaskGroup() as group:
            await self._connection.run(self._is_wanted, opened)
            for task in tuple(tasks):
                task.cancel()
        await self._connection.close()

    def _is_wanted(self, headers: Headers) -> bool:
        kind = headers.get("streamtype", "")
        if kind not in (_DATA, _ERROR) or stream_port(headers.get("port", "")) is None:
            return False
        pair = self._pairs.get(headers.get("requestid", ""))
        return pair is None or kind not in pair.streams

    async def _serve_pair(self, request_id: str, pair: _Pair) -> None:
        try:
            async with asyncio.timeout(STREAM_CREATION_SECONDS):
                await pair.complete.wait()
        except TimeoutError:
            await _send_error(pair, f"(request={request_id}) timed out waiting for streams")
        else:
            await self._forward(pair)
        finally:
            # A client may reuse the ID for another connection.
            self._pairs.pop(request_id, None)
            for stream in pair.streams.values():
                with suppress(ConnectionError):
                    await stream.finish()

    async def _forward(self, pair: _Pair) -> None:
        task, data = asyncio.current_task(), pair.streams[_DATA]
        assert task is not None
        data.on_reset = task.cancel
        try:
            error = await self._session.forward(stream_port(data.headers["port"]) or 0, data, data)
        except ConnectionError:
            with suppress(ConnectionError):
                await data.reset()
        else:
            await _send_error(pair, error)


async def _send_error(pair: _Pair, error: str) -> None:
    if _ERROR in pair.streams:
        with suppress(ConnectionError):
            await pair.streams[_ERROR].write(error.encode())


def _request_id(stream: SpdyStream) -> str:
    """The request ID of a stream; old clients sent none, but opened the two streams in a row."""
    given = stream.headers.get("requestid", "")
    return given or f"#{stream.id if stream.headers['streamtype'] == _ERROR else stream.id - 2}"


async def serve_channels(session: ForwardSession, link: MessageLink, protocol: ChannelProtocol) -> None:
    """Forward the ports of a query over WebSocket channels; the caller closes the link."""
    connection = ChannelConnection(link, protocol, range(0, 2 * len(session.ports), 2))

    async def forward(data: int, port: int) -> None:
        errors = data + 1
        with suppress(ConnectionError):
            # Both channels start with the port, little-endian.
            for channel in (data, errors):
                await connection.write(channel, struct.pack("<H", port))
            if error := await session.forward(port, connection.pipes[data], connection.sink(data)):
                await connection.write(errors, error.encode())

    async with background_task(connection.run(), "port-forward: read"), asyncio.TaskGroup() as group:
        for index, port in enumerate(session.ports):
            group.create_task(forward(2 * index, port), name=f"port-forward {port}")
