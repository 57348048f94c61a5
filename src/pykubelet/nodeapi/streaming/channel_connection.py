"""A WebSocket with channels: what comes is sorted into pipes, what is written gets its channel.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/wsstream/conn.go
"""

from collections.abc import Iterable

from pykubelet.aio.log import get_logger
from pykubelet.nodeapi.streaming.channels import ChannelProtocol, read_message, write_message
from pykubelet.nodeapi.streaming.link import MessageLink
from pykubelet.runtime.byte_pipe import BytePipe

log = get_logger(__name__)


class ChannelSink:
    """Writes to one channel. ByteSink."""

    def __init__(self, connection: "ChannelConnection", channel: int) -> None:
        self._connection, self._channel = connection, channel

    async def write(self, data: bytes) -> None:
        await self._connection.write(self._channel, data)


class ChannelConnection:
    """The node's end; `run` reads it."""

    def __init__(self, link: MessageLink, protocol: ChannelProtocol, readable: Iterable[int]) -> None:
        self._link, self.protocol = link, protocol
        self.pipes = {channel: BytePipe() for channel in readable}

    def sink(self, channel: int) -> ChannelSink:
        """Where to write for a channel."""
        return ChannelSink(self, channel)

    async def write(self, channel: int, data: bytes) -> None:
        """Send to a channel; ConnectionError if the caller is gone."""
        await self._link.send(write_message(self.protocol, channel, data), is_text=self.protocol.is_base64)

    async def run(self) -> None:
        """Read until the caller closes; what comes for channels nobody reads is dropped."""
        try:
            while (raw := await self._link.receive()) is not None:
                message = read_message(self.protocol, raw)
                pipe = self.pipes.get(message.channel) if message is not None else None
                if message is None or pipe is None:
                    continue
                if message.is_close:
                    pipe.end()
                else:
                    await pipe.feed(message.data)
        except (ConnectionError, ValueError) as error:
            log.debug("connection ended", why=str(error))
        finally:
            for pipe in self.pipes.values():
                pipe.end()
