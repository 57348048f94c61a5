"""Live streams to containers, for whoever serves exec, attach and port-forward.

A runtime that offers them is a `Streams`. Everything is opened for the length of a context, and closed with it: leaving
that of a command ends the command, leaving any other ends nothing.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class ByteReader(Protocol):
    """Bytes that come."""

    async def read(self) -> bytes:
        """Some of them; none at the end."""


class ByteWriter(Protocol):
    """Bytes that go. What nobody takes any more is dropped, and that is no failure."""

    async def write(self, data: bytes) -> None:
        """Hand on all of them; returns when there is room for more."""

    async def close(self) -> None:
        """There will be no more."""


class Session(Protocol):
    """A program and its streams. With a terminal, all output comes on `stdout`."""

    @property
    def stdin(self) -> ByteWriter | None:
        """Its input, if that was asked for."""

    @property
    def stdout(self) -> ByteReader:
        """Its output."""

    @property
    def stderr(self) -> ByteReader | None:
        """Its other output, unless it has a terminal."""

    def resize(self, columns: int, rows: int) -> None:
        """The terminal has another size now; nothing happens without one."""

    async def exit_code(self) -> int:
        """How it ended, once it has; what it wrote may still have to be read then."""


class Connection(Protocol):
    """A connection to a port."""

    @property
    def reader(self) -> ByteReader:
        """What comes from there."""

    @property
    def writer(self) -> ByteWriter:
        """What goes there."""


class Streams(Protocol):
    """Opens streams; RuntimeFailure, when asked or on entering the context, if that cannot be."""

    def execute(
        self, container_id: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AbstractAsyncContextManager[Session]:
        """Run a command in a container."""

    def attach(self, container_id: str, *, stdin: bool) -> AbstractAsyncContextManager[Session]:
        """Watch the program a container was made for, from now on, and talk to it if it listens."""

    def connect(self, sandbox_id: str, port: int) -> AbstractAsyncContextManager[Connection]:
        """Connect to a port of a pod."""
