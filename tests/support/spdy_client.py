"""The client's end of a SPDY connection, in memory."""

import asyncio
from collections.abc import Mapping

from pykubelet.httpserver.spdy.connection import BytePipe
from pykubelet.httpserver.spdy.frames import DataFrame, Frame, FrameReader, FrameWriter, SynStream


class MemoryLink:
    """A ByteLink: one end of a connection in memory."""

    def __init__(self, coming: BytePipe, going: BytePipe) -> None:
        self._coming, self._going = coming, going
        self.is_cut = False

    async def read(self) -> bytes:
        return await self._coming.read()

    async def write(self, data: bytes) -> None:
        if self.is_cut:
            raise ConnectionResetError("cut")
        await self._going.feed(data)

    def hang_up(self) -> None:
        """Close the sending direction."""
        self._going.end()


def linked() -> tuple[MemoryLink, MemoryLink]:
    """Both ends of a connection."""
    there, back = BytePipe(), BytePipe()
    return MemoryLink(there, back), MemoryLink(back, there)


class SpdyClient:
    """Speaks SPDY as a client does, frame by frame."""

    def __init__(self, link: MemoryLink) -> None:
        self.link = link
        self._writer, self._reader = FrameWriter(), FrameReader()
        self._next_id = 1
        self.heard: list[Frame] = []

    async def send(self, *frames: Frame) -> None:
        for frame in frames:
            await self.link.write(self._writer.write(frame))

    async def open(self, headers: Mapping[str, str], *, fin: bool = False) -> int:
        """Open a stream and return its number."""
        number, self._next_id = self._next_id, self._next_id + 2
        await self.send(SynStream(number, headers, fin))
        return number

    async def hear(self, wanted: Frame) -> None:
        """Wait for a frame."""
        async with asyncio.timeout(60):
            while wanted not in self.heard:
                data = await self.link.read()
                assert data, f"{wanted} did not come: {self.heard}"
                self.heard += self._reader.feed(data)

    async def hear_all(self) -> list[Frame]:
        """Read until the other side closes, and return all frames."""
        while data := await self.link.read():
            self.heard += self._reader.feed(data)
        return self.heard

    def data_of(self, stream: int) -> bytes:
        """The data that came on a stream."""
        return b"".join(frame.data for frame in self.heard if isinstance(frame, DataFrame) and frame.id == stream)
