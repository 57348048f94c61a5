"""A pipe for bytes between two tasks, with room for a little: who writes too fast waits."""

import asyncio
from collections import deque

# Some of the pieces that clients send; what is more waits in the network.
ROOM_BYTES = 256 * 1024


class BytePipe:
    """One task feeds, one reads. ByteSource."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._is_over = False
        self._changed = asyncio.Event()

    async def feed(self, data: bytes) -> None:
        """Add bytes; waits for room. What comes after the end is dropped."""
        while self._size >= ROOM_BYTES and not self._is_over:
            await self._change()
        if data and not self._is_over:
            self._pieces.append(data)
            self._size += len(data)
            self._changed.set()

    def end(self) -> None:
        """Nothing more will come; what is in the pipe can still be read."""
        self._is_over = True
        self._changed.set()

    def abandon(self) -> None:
        """Nobody will read any more."""
        self._pieces.clear()
        self._size = 0
        self.end()

    async def read(self) -> bytes:
        """All there is; waits for something. Nothing at the end."""
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
