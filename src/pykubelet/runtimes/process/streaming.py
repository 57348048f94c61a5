"""Exec and attach sessions with processes of a container: the kubelet's side of `shim/requests.py`.

The kubelet creates the pipes or the terminal and passes the other ends to the shim, which runs the program.
"""

import asyncio
import fcntl
import os
import socket
import struct
import termios
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from pykubelet.aio import packets
from pykubelet.runtimes.process.shim import wire
from pykubelet.runtimes.protocol import RuntimeFailure

_BLOCK_BYTES = 64 * 1024
# Data written to a terminal arrives at the other end a moment later.
_LATE_SECONDS = 0.1
# How far an attached client may lag before the shim drops it; the largest pipe for ordinary users.
_VIEWER_BYTES = 1024 * 1024
_KILLED = 137
_BUSY_SECONDS = 0.005


class FileReader:
    """Reads a pipe or terminal until all writers have closed it or the program has ended."""

    def __init__(self, file: int, ended: "asyncio.Future[int]", *, is_terminal: bool = False) -> None:
        self._file, self._ended = file, ended
        self._late_seconds = _LATE_SECONDS if is_terminal else 0.0
        os.set_blocking(file, False)

    async def read(self) -> bytes:
        while True:
            try:
                return os.read(self._file, _BLOCK_BYTES)
            except BlockingIOError:
                if self._ended.done() and not await self._waits_for_more():
                    # Other processes may still have the file open, but the program has ended.
                    return b""
            except OSError:
                # A terminal reports the end this way.
                return b""
            if not self._ended.done():
                await self._wait(self._ended)

    async def _waits_for_more(self) -> bool:
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
        wake = lambda _: woken.set()  # noqa: E731  named, so that it can be removed
        if ended is not None:
            ended.add_done_callback(wake)
        try:
            await woken.wait()
        finally:
            loop.remove_reader(self._file)
            if ended is not None:
                ended.remove_done_callback(wake)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._file)
        os.close(self._file)
        self._file = -1


class FileWriter:
    """Writes a pipe or terminal; drops data after the reader has closed it."""

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
        # A terminal has no end of input; it closes with the session.
        if not self._is_terminal:
            self.release()

    def release(self) -> None:
        """Close the file, also a terminal's."""
        if self._file >= 0:
            asyncio.get_running_loop().remove_writer(self._file)
            os.close(self._file)
            self._file = -1


async def ask(folder: Path, message: dict[str, Any]) -> dict[str, Any]:
    """Sends a request to a shim and returns the answer; RuntimeFailure if it fails."""
    with await _call(folder, message) as connection:
        answer = await _answer_on(connection)
    if "error" in answer:
        raise RuntimeFailure(answer["error"])
    return answer


async def _call(folder: Path, message: dict[str, Any], files: Sequence[int] = ()) -> socket.socket:
    """Connects to a shim and sends a request; RuntimeFailure if the container does not run."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setblocking(False)
    try:
        # Through an open folder: the path may be too long for a socket address.
        where = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            while True:
                try:
                    connection.connect(f"/proc/self/fd/{where}/{wire.CONTROL}")
                    break
                except BlockingIOError:
                    await asyncio.sleep(_BUSY_SECONDS)
        finally:
            os.close(where)
        packets.send(connection, message, files)
    except OSError as error:
        connection.close()
        raise RuntimeFailure("the container is not running") from error
    except packets.MessageTooLong as error:
        connection.close()
        raise RuntimeFailure(f"the command is too long: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


class ProcessSession:
    """An ExecSession of a program that a shim runs."""

    def __init__(self, connection: socket.socket, ends: "_Ends", *, is_ours: bool) -> None:
        """`is_ours` if we created the terminal (exec), not the shim (attach)."""
        loop = asyncio.get_running_loop()
        self._connection, self._ends, self._is_ours = connection, ends, is_ours
        self._ended: asyncio.Future[int] = loop.create_future()
        tty = ends.is_terminal
        self.stdin = FileWriter(ends.stdin, is_terminal=tty) if ends.stdin >= 0 else None
        self.stdout = FileReader(ends.stdout, self._ended, is_terminal=tty)
        self.stderr = FileReader(ends.stderr, self._ended) if ends.stderr >= 0 else None
        loop.add_reader(connection, self._on_message)

    def resize(self, columns: int, rows: int) -> None:
        if self._is_ours and self._ends.is_terminal:
            fcntl.ioctl(self._ends.stdout, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        elif not self._is_ours:
            with suppress(OSError):
                packets.send(self._connection, {"resize": [columns, rows]})

    async def exit_code(self) -> int:
        return await asyncio.shield(self._ended)

    def close(self) -> None:
        """Close the connection, which ends a command."""
        asyncio.get_running_loop().remove_reader(self._connection)
        self._connection.close()
        self._ended.cancel()
        self.stdout.close()
        if self.stdin is not None:
            self.stdin.release()
        if self.stderr is not None:
            self.stderr.close()

    def _on_message(self) -> None:
        try:
            message = packets.decode(self._connection.recv(packets.MAX_BYTES))
        except BlockingIOError:
            return
        except OSError:
            message = None
        # A shim that closes without a message was killed, with all its processes.
        asyncio.get_running_loop().remove_reader(self._connection)
        if not self._ended.done():
            self._ended.set_result(_KILLED if message is None else message["exit_code"])


class _Ends:
    """Our ends of the pipes or the terminal, and those for the shim (`theirs`)."""

    def __init__(self) -> None:
        self.is_terminal = False
        self.stdin = self.stdout = self.stderr = -1
        self.theirs: list[int] = []

    def close_theirs(self) -> None:
        """Close the shim's ends after they were sent."""
        for file in set(self.theirs):
            os.close(file)
        self.theirs = []

    def close(self) -> None:
        """Close our ends after a failure."""
        for file in (self.stdin, self.stdout, self.stderr):
            if file >= 0:
                os.close(file)


def _terminal() -> _Ends:
    ends = _Ends()
    ends.is_terminal = True
    ends.stdout, slave = os.openpty()
    ends.stdin = os.dup(ends.stdout)
    ends.theirs = [slave, slave, slave]
    return ends


def _pipes(*, stdin: bool, is_joined: bool = False) -> _Ends:
    """Pipes for a program; with `is_joined`, both outputs share one."""
    ends = _Ends()
    if stdin:
        source, ends.stdin = os.pipe()
    else:
        source = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    ends.stdout, output = os.pipe()
    ends.theirs = [source, output, output]
    if not is_joined:
        ends.stderr, ends.theirs[2] = os.pipe()
    return ends


@asynccontextmanager
async def execute(
    folder: Path, command: Sequence[str], *, stdin: bool = False, tty: bool = False
) -> AsyncIterator[ProcessSession]:
    """Runs a command in a container; RuntimeFailure if it cannot be started."""
    ends = _terminal() if tty else _pipes(stdin=stdin)
    async with _opened(folder, {"op": "exec", "argv": list(command), "tty": tty}, ends, is_ours=True) as session:
        yield session


async def both_outputs(session: ProcessSession, limit_bytes: int) -> tuple[bytes, bytes]:
    """The beginning of a command's stdout and stderr, read until both are closed."""
    streams = [stream for stream in (session.stdout, session.stderr) if stream is not None]
    async with asyncio.TaskGroup() as group:
        reads = [group.create_task(_beginning(stream, limit_bytes), name="output") for stream in streams]
    output, *errors = (read.result() for read in reads)
    return output, b"".join(errors)


async def _beginning(stream: FileReader, limit_bytes: int) -> bytes:
    kept = bytearray()
    while block := await stream.read():
        # Read everything: a full pipe would block the command.
        kept += block[: limit_bytes - len(kept)]
    return bytes(kept)


@asynccontextmanager
async def attach(folder: Path, *, stdin: bool, tty: bool) -> AsyncIterator[ProcessSession]:
    """Attaches to a container; RuntimeFailure if it is not running."""
    ends = _pipes(stdin=stdin, is_joined=tty)
    ends.is_terminal = tty
    if not stdin:
        os.close(ends.theirs.pop(0))
    if tty:
        ends.theirs.pop()
    for file in ends.theirs:
        with suppress(OSError):
            fcntl.fcntl(file, fcntl.F_SETPIPE_SZ, _VIEWER_BYTES)
    async with _opened(folder, {"op": "attach", "stdin": stdin}, ends, is_ours=False) as session:
        yield session


@asynccontextmanager
async def _opened(
    folder: Path, message: dict[str, Any], ends: _Ends, *, is_ours: bool
) -> AsyncIterator[ProcessSession]:
    try:
        try:
            connection = await _call(folder, message, ends.theirs)
        finally:
            ends.close_theirs()
        try:
            await _expect_start(connection)
        except BaseException:
            connection.close()
            raise
    except BaseException:
        ends.close()
        raise
    session = ProcessSession(connection, ends, is_ours=is_ours)
    try:
        yield session
    finally:
        session.close()


async def _answer_on(connection: socket.socket) -> dict[str, Any]:
    try:
        answer = packets.decode(await asyncio.get_running_loop().sock_recv(connection, packets.MAX_BYTES))
    except OSError:
        answer = None
    if answer is None:
        raise RuntimeFailure("the container has ended")
    return answer


async def _expect_start(connection: socket.socket) -> None:
    answer = await _answer_on(connection)
    if "error" in answer:
        raise RuntimeFailure(f"unable to start container process: {answer['error']}")
