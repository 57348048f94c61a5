"""Open pipes and terminals as asynchronous streams of bytes."""

import asyncio
import os
from contextlib import suppress

_BLOCK_BYTES = 64 * 1024
# What a terminal was given arrives at its other end a moment later.
_LATE_SECONDS = 0.1


class FileReader:
    """Reads a file that we own, until all who write it have closed it, or the program it is of has ended."""

    def __init__(self, file: int, ended: "asyncio.Future[int]", *, is_terminal: bool = False) -> None:
        self._file, self._ended = file, ended
        self._late_seconds = _LATE_SECONDS if is_terminal else 0.0
        os.set_blocking(file, False)

    async def read(self) -> bytes:
        while True:
            try:
                return os.read(self._file, _BLOCK_BYTES)
            except BlockingIOError:
                if self._ended.done() and not await self._more_comes():
                    # Others may have the file open still, but they are not whom we listen to.
                    return b""
            except OSError:
                # What a terminal says when nobody has it open any more.
                return b""
            if not self._ended.done():
                await self._wait(self._ended)

    async def _more_comes(self) -> bool:
        if not self._late_seconds:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(self._late_seconds):
                await self._wait(None)
                return True
        return False

    async def _wait(self, ended: "asyncio.Future[int] | None") -> None:
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        loop.add_reader(self._file, woken.set)
        wake = lambda _: woken.set()  # noqa: E731  a name, to take it away again
        if ended is not None:
            ended.add_done_callback(wake)
        try:
            await woken.wait()
        finally:
            loop.remove_reader(self._file)
            if ended is not None:
                ended.remove_done_callback(wake)

    def close(self) -> None:
        """Let go of the file."""
        asyncio.get_running_loop().remove_reader(self._file)
        os.close(self._file)
        self._file = -1


class FileWriter:
    """Writes a file that we own; once nobody reads it, what is written is dropped."""

    def __init__(self, file: int, *, is_terminal: bool = False) -> None:
        self._file, self._is_terminal = file, is_terminal
        os.set_blocking(file, False)

    async def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and self._file >= 0:
            try:
                rest = rest[os.write(self._file, rest) :]
            except BlockingIOError:
                await self._wait()
            except OSError:
                return

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        loop.add_writer(self._file, woken.set)
        try:
            await woken.wait()
        finally:
            loop.remove_writer(self._file)

    async def close(self) -> None:
        # A terminal has no end of input: it is hung up when the session is over.
        if not self._is_terminal:
            self.release()

    def release(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            asyncio.get_running_loop().remove_writer(self._file)
            os.close(self._file)
            self._file = -1
