"""The caller's end of a command or a connection, whatever protocol it came by."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class ByteSource(Protocol):
    """What the caller sends."""

    async def read(self) -> bytes:
        """Some bytes as they come; none at the end, and ever after."""


class ByteSink(Protocol):
    """What the caller gets."""

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the caller is slow. ConnectionError if the caller is gone."""


class TerminalSize(NamedTuple):
    """How large the caller's terminal is."""

    columns: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """A caller's streams; what was not asked for is None."""

    stdin: ByteSource | None = None
    stdout: ByteSink | None = None
    stderr: ByteSink | None = None
    sizes: AsyncIterator[TerminalSize] | None = None
    """The sizes of the caller's terminal: the first, and every new one."""
