"""A SPDY connection to the server that a runtime streams with, for the length of a context."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from pykubelet.aio.beside import beside
from pykubelet.runtime.cri.upgrade import HEAD_END, refusal, upgrade_request
from pykubelet.runtime.protocol import RuntimeFailure
from pykubelet.runtime.spdy_connection import SpdyConnection

_READ_BYTES = 64 * 1024
# The server is on this machine; who does not answer in this time hangs.
_ANSWER_SECONDS = 30.0
_PORTS = {"http": 80, "https": 443}


class StreamLink:
    """Bytes over a socket. ByteLink."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(_READ_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


@asynccontextmanager
async def spdy_connection(url: str, protocol: str) -> AsyncIterator[SpdyConnection]:
    """Connected as long as the context lasts; RuntimeFailure if that cannot be."""
    try:
        reader, writer = await _upgraded(url, protocol)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise RuntimeFailure(f"the runtime's streaming server cannot be reached: {error}") from error
    connection = SpdyConnection(StreamLink(reader, writer), is_client=True)
    try:
        async with beside(connection.run(lambda _: False, lambda _: None), "cri: stream"):
            yield connection
            with suppress(ConnectionError):
                await connection.close()
    finally:
        writer.close()


async def _upgraded(url: str, protocol: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    async with asyncio.timeout(_ANSWER_SECONDS):
        is_secret = parts.scheme == "https"
        port = parts.port or _PORTS.get(parts.scheme, 80)
        reader, writer = await asyncio.open_connection(parts.hostname or "127.0.0.1", port, ssl=is_secret or None)
        try:
            writer.write(upgrade_request(url, protocol))
            head = await reader.readuntil(HEAD_END)
        except BaseException:
            writer.close()
            raise
    if problem := refusal(head, protocol):
        writer.close()
        raise RuntimeFailure(problem)
    return reader, writer
