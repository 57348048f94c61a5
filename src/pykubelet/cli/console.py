"""The terminal or the pipes of whoever runs a command elsewhere."""

import asyncio
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

_CHUNK = 32 * 1024
# So many pieces may wait to be sent; then no more is read.
_PIECES = 8


class StandardStreams:
    """Standard input, output and error. Console."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(_PIECES)
        self._reader: threading.Thread | None = None

    async def read(self) -> bytes:
        """Some input; none at its end. A thread reads: a file cannot be waited for, and a terminal is shared."""
        if self._reader is None:
            loop = asyncio.get_running_loop()
            self._reader = threading.Thread(target=self._read, args=(loop,), name="standard input", daemon=True)
            self._reader.start()
        data = await self._pieces.get()
        self._room.release()
        return data

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        data = b"-"
        while data:
            self._room.acquire()
            try:
                data = os.read(sys.stdin.fileno(), _CHUNK)
            except OSError:
                data = b""
            try:
                loop.call_soon_threadsafe(self._pieces.put_nowait, data)
            except RuntimeError:
                return  # all is over meanwhile

    def write(self, data: bytes, *, is_error: bool) -> None:
        stream = (sys.stderr if is_error else sys.stdout).buffer
        stream.write(data)
        stream.flush()

    async def sizes(self) -> AsyncIterator[tuple[int, int]]:
        """Columns and rows of the terminal: now, and whenever they change."""
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, changed.set)
        try:
            while True:
                size = os.get_terminal_size(sys.stdin.fileno())
                yield size.columns, size.lines
                await changed.wait()
                changed.clear()
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Every key goes to the command elsewhere, Ctrl-C too, and nothing is shown but what it writes."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
