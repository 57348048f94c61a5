"""A SPDY/3.1 connection of either side: many streams, opened by the client, over one link.

There is no flow control: like Go's clients, neither side announces or respects windows. A stream that is not read fills its
pipe and then blocks the connection; if streams are independent, such a stream is reset after a timeout.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/spdy/connection.go
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from pykubelet.aio.log import get_logger
from pykubelet.httpserver.spdy.frames import (
    CANCEL,
    GONE_PROTOCOL_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    DataFrame,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    Headers,
    HeadersFrame,
    Ping,
    RstStream,
    SpdyError,
    SynReply,
    SynStream,
)

log = get_logger(__name__)

# Room for some of the pieces that clients send; more waits in the network.
ROOM_BYTES = 256 * 1024
# A browser opens six connections at once to one address, a load test a few hundred.
MAX_STREAMS = 4096

IsAccepted = Callable[[Headers], bool]


class ByteLink(Protocol):
    """A byte connection that carries SPDY."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes; ConnectionError if the other side is gone."""


class SpdyStream:
    """One stream of a connection; both a byte reader and a byte writer."""

    def __init__(self, connection: "SpdyConnection", id: int, headers: Headers) -> None:
        self.id, self.headers = id, headers
        self.pipe = BytePipe()
        self.on_reset: Callable[[], object] | None = None
        """Called when the other side drops the stream."""
        self.is_finished = False
        """Whether our side is closed."""
        self.is_over = False
        """Whether the other side is closed."""
        self.is_answered = asyncio.Event()
        """Set when the other side has accepted or refused a stream that we opened."""
        self._connection = connection

    async def read(self) -> bytes:
        return await self.pipe.read()

    async def write(self, data: bytes) -> None:
        if self.is_finished:
            raise ConnectionResetError("the stream is closed")
        if data:
            await self._connection.send(DataFrame(self.id, data))

    async def finish(self) -> None:
        """Close our side of the stream."""
        if not self.is_finished:
            self.is_finished = True
            self._connection.forget_closed(self)
            await self._connection.send(DataFrame(self.id, b"", fin=True))

    async def reset(self) -> None:
        """Drop the stream in both directions."""
        self.cut_off()
        self._connection.forget_closed(self)
        await self._connection.send(RstStream(self.id, CANCEL))

    def cut_off(self, *, keeps_data: bool = False) -> None:
        """Mark both sides as closed; drops unread data unless `keeps_data`."""
        self.is_finished = self.is_over = True
        self.is_answered.set()
        if keeps_data:
            self.pipe.end()
        else:
            self.pipe.abandon()

    def end(self) -> None:
        """Mark the other side as closed."""
        self.is_over = True
        self.is_answered.set()
        self.pipe.end()
        self._connection.forget_closed(self)


class SpdyConnection:
    """One side of a connection; `run` must be running."""

    def __init__(self, link: ByteLink, *, patience_seconds: float | None = None, is_client: bool = False) -> None:
        """With `patience_seconds`, a stream that is not read for that long is reset, so that others can continue."""
        self._link, self._patience_seconds, self._is_client = link, patience_seconds, is_client
        self._next_id = 1
        self._writer = FrameWriter()
        self._streams: dict[int, SpdyStream] = {}
        self._last_id = 0
        self._is_over = False

    async def run(self, is_accepted: IsAccepted, opened: Callable[[SpdyStream], None]) -> None:
        """Handle frames until the other side closes; calls `opened` with each accepted stream."""
        reader = FrameReader()
        try:
            while data := await self._link.read():
                for frame in reader.feed(data):
                    if isinstance(frame, GoAway):
                        return
                    await self._handle(frame, is_accepted, opened)
        except SpdyError as error:
            log.debug("connection ended", why=str(error))
            with suppress(ConnectionError):
                await self.send(GoAway(self._last_id, GONE_PROTOCOL_ERROR))
        except ConnectionError:
            return  # the other side is gone, and its streams with it
        finally:
            self._is_over = True
            for stream in tuple(self._streams.values()):
                stream.end()

    async def send(self, frame: Frame) -> None:
        """Send a frame; ConnectionError if the other side is gone."""
        await self._link.write(self._writer.write(frame))

    async def open(self, headers: Headers) -> SpdyStream:
        """Open a stream as a client; a refused stream ends at once."""
        stream = self._streams[self._next_id] = SpdyStream(self, self._next_id, headers)
        self._next_id += 2
        await self.send(SynStream(stream.id, headers))
        # Go servers silently drop data that arrives before their reply.
        if not self._is_over:
            await stream.is_answered.wait()
        return stream

    async def close(self) -> None:
        """Reset all streams and send GOAWAY; the owner of the link closes it."""
        for stream in tuple(self._streams.values()):
            await stream.reset()
        await self.send(GoAway(self._last_id))

    def forget_closed(self, stream: SpdyStream) -> None:
        """Drop a stream whose two sides are closed."""
        if stream.is_finished and stream.is_over:
            self._streams.pop(stream.id, None)

    async def _handle(self, frame: Frame, is_accepted: IsAccepted, opened: Callable[[SpdyStream], None]) -> None:
        match frame:
            case SynStream():
                await self._open(frame, is_accepted, opened)
            case SynReply() if frame.id in self._streams:
                self._streams[frame.id].is_answered.set()
            case DataFrame():
                await self._take(frame)
            case HeadersFrame(fin=True) if frame.id in self._streams:
                self._streams[frame.id].end()
            case RstStream() if frame.id in self._streams:
                stream = self._streams.pop(frame.id)
                # A Go server resets its streams when it is done; data sent before is still valid.
                stream.cut_off(keeps_data=self._is_client)
                if stream.on_reset is not None:
                    stream.on_reset()
            case Ping() if frame.id % 2 != self._is_client:
                # Pings of the client have odd numbers, as its streams.
                await self.send(frame)
            case _:
                pass

    async def _open(self, frame: SynStream, is_accepted: IsAccepted, opened: Callable[[SpdyStream], None]) -> None:
        # Stream numbers of a client are odd and increase; servers open none.
        if self._is_client or frame.id % 2 == 0 or frame.id <= self._last_id:
            await self.send(RstStream(frame.id, PROTOCOL_ERROR))
            return
        self._last_id = frame.id
        if len(self._streams) >= MAX_STREAMS or not is_accepted(frame.headers):
            await self.send(RstStream(frame.id, REFUSED_STREAM))
            return
        stream = self._streams[frame.id] = SpdyStream(self, frame.id, frame.headers)
        if frame.fin:
            stream.end()
        await self.send(SynReply(frame.id))
        opened(stream)

    async def _take(self, frame: DataFrame) -> None:
        stream = self._streams.get(frame.id)
        if stream is None:
            return
        try:
            async with asyncio.timeout(self._patience_seconds):
                await stream.pipe.feed(frame.data)
        except TimeoutError:
            log.info("stream reset: it is not read", stream=frame.id)
            await stream.reset()
            if stream.on_reset is not None:
                stream.on_reset()
            return
        if frame.fin:
            stream.end()


class BytePipe:
    """A bounded pipe of bytes between two tasks: one writes and waits while it is full, the other reads."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._is_over = False
        self._changed = asyncio.Event()

    async def feed(self, data: bytes) -> None:
        """Add bytes; waits while the pipe is full. Drops bytes after the end."""
        while self._size >= ROOM_BYTES and not self._is_over:
            await self._change()
        if data and not self._is_over:
            self._pieces.append(data)
            self._size += len(data)
            self._changed.set()

    def end(self) -> None:
        """End the data; what is in the pipe can still be read."""
        self._is_over = True
        self._changed.set()

    def abandon(self) -> None:
        """Drop the content and end the data: there is no reader any more."""
        self._pieces.clear()
        self._size = 0
        self.end()

    async def read(self) -> bytes:
        """The content of the pipe; waits while it is empty. Empty at the end."""
        while not self._pieces:
            if self._is_over:
                return b""
            await self._change()
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._changed.set()
        return data

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
