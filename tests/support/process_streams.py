"""Exec, attach and port-forward streams for tests of the kubelet's API: real processes, no containers."""

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import termios
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pykubelet.runtimes.protocol import CommandResult, PortForwardConnection, RuntimeFailure


class PipeReader:
    """A ByteReader of a process's output."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def read(self) -> bytes:
        try:
            return await self._reader.read(65536)
        except OSError:
            # Reading a terminal fails with an error once its last program has ended.
            return b""


class PipeWriter:
    """A ByteWriter to a process's input."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    async def close(self) -> None:
        if self._writer.can_write_eof():
            with contextlib.suppress(OSError):
                self._writer.write_eof()
        else:
            self._writer.close()


class ProcessSession:
    """A Session with a process."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        stdin: PipeWriter | None,
        stdout: PipeReader,
        stderr: PipeReader | None = None,
        terminal: int | None = None,
    ) -> None:
        self.process, self.stdin, self.stdout, self.stderr = process, stdin, stdout, stderr
        self._terminal = terminal
        self.transports: list[asyncio.BaseTransport] = []

    def close(self) -> None:
        """Close the transports of the terminal."""
        for transport in self.transports:
            transport.close()

    def resize(self, columns: int, rows: int) -> None:
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def exit_code(self) -> int:
        code = await self.process.wait()
        return code if code >= 0 else 128 - code


class SocketReader(PipeReader):
    """A ByteReader of a port; unlike a terminal's, its errors are raised and not taken for the end."""

    async def read(self) -> bytes:
        return await self._reader.read(65536)


class ProcessStreams:
    """Streams and Commands for any container id; commands run as processes of this machine."""

    def __init__(self) -> None:
        self.ended: list[list[str]] = []
        """The commands whose context is over."""
        self.attached: asyncio.subprocess.Process | None = None

    @asynccontextmanager
    async def execute(
        self, container_id: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AsyncIterator[ProcessSession]:
        try:
            session = await (_on_terminal(command) if tty else _on_pipes(command, stdin=stdin))
        except OSError as error:
            raise RuntimeFailure(f"no such command: {error.strerror}") from error
        try:
            yield session
        finally:
            with contextlib.suppress(ProcessLookupError):
                session.process.kill()
            await session.process.wait()
            session.close()
            # The event loop closes the files in its next step, which a test that ends now would not reach.
            await asyncio.sleep(0)
            self.ended.append(list(command))

    @asynccontextmanager
    async def attach(self, container_id: str, *, stdin: bool) -> AsyncIterator[ProcessSession]:
        process = self.attached
        if process is None:
            raise RuntimeFailure("the container does not run")
        assert process.stdout is not None
        assert process.stdin is not None
        yield ProcessSession(process, PipeWriter(process.stdin) if stdin else None, PipeReader(process.stdout))

    @asynccontextmanager
    async def connect(self, sandbox_id: str, port: int) -> AsyncIterator[PortForwardConnection]:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            raise RuntimeFailure(f"failed to connect to localhost:{port}: {error.strerror}") from error
        try:
            yield PortForwardConnection(SocketReader(reader), PipeWriter(writer))
        finally:
            writer.close()

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> CommandResult:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        return CommandResult(process.returncode or 0, output[:limit_bytes])


async def _on_pipes(command: Sequence[str], *, stdin: bool) -> ProcessSession:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe if stdin else asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    assert process.stdout is not None
    assert process.stderr is not None
    writer = PipeWriter(process.stdin) if process.stdin is not None else None
    return ProcessSession(process, writer, PipeReader(process.stdout), PipeReader(process.stderr))


async def _on_terminal(command: Sequence[str]) -> ProcessSession:
    ours, theirs = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
    finally:
        os.close(theirs)
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(ours), "rb", 0)
    )
    writing, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(ours, "wb", 0)
    )
    writer = PipeWriter(asyncio.StreamWriter(writing, protocol, None, loop))
    session = ProcessSession(process, writer, PipeReader(reader), terminal=ours)
    session.transports += [reading, writing]
    return session
