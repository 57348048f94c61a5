"""Serves exec and attach: turns SPDY streams or WebSocket channels into the client's streams.

Upstream: staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand/httpstream.go,
staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand/websocket.go
"""

import asyncio
import json
from collections.abc import Mapping

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import background_task
from pykubelet.httpserver.spdy.connection import ByteLink, SpdyConnection, SpdyStream
from pykubelet.httpserver.spdy.frames import Headers
from pykubelet.kubelet.server.streaming.negotiation import StreamProtocol, has_exit_codes, has_resizes
from pykubelet.kubelet.server.streaming.session import ByteSource, CommandSession, RemoteStreams, TerminalSize, ending
from pykubelet.kubelet.server.streaming.wsstream import ChannelConnection, ChannelProtocol, MessageLink

log = get_logger(__name__)

# A size message has about forty bytes; a longer one is malformed.
_LONGEST = 4096
_DECODER = json.JSONDecoder()

# How long a client may take to open the requested streams.
STREAM_CREATION_SECONDS = 30.0
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)


class SizeReader:
    """Parses terminal sizes, JSON objects one after the other; stops at the first malformed one."""

    def __init__(self) -> None:
        self._text = ""
        self.is_broken = False

    def feed(self, data: bytes) -> list[TerminalSize]:
        """The sizes that are complete now."""
        self._text += data.decode("latin-1")
        sizes: list[TerminalSize] = []
        while not self.is_broken and (text := self._text.lstrip()):
            try:
                value, end = _DECODER.raw_decode(text)
            except (ValueError, RecursionError):
                self.is_broken = len(text) > _LONGEST or not text.startswith("{")
                break
            size = _size(value)
            if size is None:
                self.is_broken = True
            else:
                sizes.append(size)
                self._text = text[end:]
        return sizes


def _size(value: object) -> TerminalSize | None:
    if not isinstance(value, dict):
        return None
    fields = {str(name).lower(): number for name, number in value.items()}
    columns, rows = fields.get("width", 0), fields.get("height", 0)
    if not all(type(number) is int and 0 <= number < 2**16 for number in (columns, rows)):
        return None
    return TerminalSize(columns, rows)


class TerminalSizes:
    """The terminal sizes of a byte stream, as an AsyncIterator."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._reader = SizeReader()
        self._ready: list[TerminalSize] = []

    def __aiter__(self) -> "TerminalSizes":
        return self

    async def __anext__(self) -> TerminalSize:
        while not self._ready:
            data = b"" if self._reader.is_broken else await self._source.read()
            if not data:
                raise StopAsyncIteration
            self._ready = self._reader.feed(data)
        return self._ready.pop(0)


async def serve_channels(session: CommandSession, link: MessageLink, agreement: StreamProtocol) -> None:
    """Run a command over WebSocket channels; the caller closes the link."""
    options = session.options
    readable = [channel for channel, is_asked in ((_STDIN, options.stdin), (_RESIZE, session.tty)) if is_asked]
    connection = ChannelConnection(link, ChannelProtocol(agreement.protocol), readable)
    pipes = connection.pipes
    client = RemoteStreams(
        stdin=pipes.get(_STDIN),
        stdout=connection.sink(_STDOUT) if options.stdout else None,
        stderr=connection.sink(_STDERR) if options.stderr and not session.tty else None,
        sizes=TerminalSizes(pipes[_RESIZE]) if session.tty else None,
    )
    # An empty message tells the client that the connection is established.
    await connection.write(_STDOUT if options.stdout else _STDERR if options.stderr else _ERROR, b"")
    async with background_task(connection.run(), "exec: read"):
        status = await session.run(client)
    if content := ending(status, as_status=has_exit_codes(agreement)):
        await connection.write(_ERROR, content)


async def serve_spdy(session: CommandSession, link: ByteLink, agreement: StreamProtocol) -> None:
    """Run a command over SPDY; the caller closes the link."""
    connection = SpdyConnection(link)
    collector = _StreamCollector(session, with_sizes=has_resizes(agreement))
    async with background_task(connection.run(collector.is_wanted, collector.opened), "exec: read") as reading:
        reading.add_done_callback(lambda _: collector.complete.set())
        streams = await collector.streams()
        if streams is not None:
            status = await session.run(_client_streams(session, streams))
            await streams["error"].write(ending(status, as_status=has_exit_codes(agreement)))
            for kind in ("stdout", "stderr", "error"):
                if kind in streams:
                    await streams[kind].finish()
    await connection.close()


def _client_streams(session: CommandSession, streams: Mapping[str, SpdyStream]) -> RemoteStreams:
    sizes = streams.get("resize")
    return RemoteStreams(
        stdin=streams.get("stdin"),
        stdout=streams.get("stdout"),
        stderr=None if session.tty else streams.get("stderr"),
        sizes=TerminalSizes(sizes) if sizes is not None else None,
    )


class _StreamCollector:
    """Collects the requested streams until all are open."""

    def __init__(self, session: CommandSession, *, with_sizes: bool) -> None:
        options = session.options
        asked = {"stdin": options.stdin, "stdout": options.stdout, "stderr": options.stderr}
        # The resize stream depends on the client's request, not on the container's terminal.
        asked |= {"error": True, "resize": options.tty and with_sizes}
        self._expected = {kind for kind, is_asked in asked.items() if is_asked}
        self._found: dict[str, SpdyStream] = {}
        self.complete = asyncio.Event()

    def is_wanted(self, headers: Headers) -> bool:
        kind = headers.get("streamtype", "")
        return kind in self._expected and kind not in self._found

    def opened(self, stream: SpdyStream) -> None:
        self._found[stream.headers["streamtype"]] = stream
        if self._found.keys() == self._expected:
            self.complete.set()

    async def streams(self) -> Mapping[str, SpdyStream] | None:
        """All streams; None if the client does not open them in time."""
        try:
            async with asyncio.timeout(STREAM_CREATION_SECONDS):
                await self.complete.wait()
        except TimeoutError:
            log.info("timed out waiting for client to create streams")
        return self._found if self._found.keys() == self._expected else None
