"""Connections to ports of pods that share the machine's network, where the pod itself listens."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from pykubelet.runtime.go_words import dial_failure
from pykubelet.runtime.process.listeners import ADDRESSES
from pykubelet.runtime.protocol import RuntimeFailure

_BLOCK_BYTES = 64 * 1024


class _Reader:
    """What comes from a port."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_BLOCK_BYTES)
        except OSError:
            return b""


class _Writer:
    """What goes to a port."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, data: bytes) -> None:
        with suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()

    async def close(self) -> None:
        # Half closed: an answer may still come.
        with suppress(OSError):
            if self._writer.can_write_eof():
                self._writer.write_eof()


@dataclass(frozen=True, slots=True)
class LocalConnection:
    """A connection to a port of the machine."""

    reader: _Reader
    writer: _Writer


@asynccontextmanager
async def open_local_port(
    port: int, addresses: Callable[[], Awaitable[Sequence[str]]]
) -> AsyncIterator[LocalConnection]:
    """Connect to a port of this machine at one of the addresses where a pod serves it; RuntimeFailure if there is none."""
    reader, writer = await _opened(port, await addresses())
    try:
        yield LocalConnection(_Reader(reader), _Writer(writer))
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _opened(port: int, addresses: Sequence[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reasons = []
    # By address: looking up a name may take its time, and several failures in one say nothing a person can read.
    for address in ADDRESSES:
        if address not in addresses:
            # Somebody else may listen there, whom the pod has no business with.
            reasons.append(dial_failure(address, port, ConnectionRefusedError(errno.ECONNREFUSED, "refused")))
            continue
        try:
            return await asyncio.open_connection(address, port)
        except OSError as error:
            reasons.append(dial_failure(address, port, error))
    raise RuntimeFailure(f"failed to connect to localhost:{port} inside the pod: {', '.join(reasons)}")
