"""Opens TCP connections, or says why not in the words that users of Kubernetes know.

Upstream: pkg/probe/tcp/tcp.go. It also makes `close` linger for a second; here that would hold up everybody else.

What one run of a probe found.

Upstream: pkg/probe/probe.go
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from pykubelet.httpserver.http_client import dial_failure, host_port


class ProbeState(StrEnum):
    """How it went; the words are those of events. WARNING is a success with something to tell."""

    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ProbeAttempt:
    """An answer of the container, or its failure to give one in time."""

    state: ProbeState
    output: str = ""


class ProbeError(Exception):
    """The probe could not be run to its end, which says nothing about the container."""

    def __init__(self, message: str, state: ProbeState = ProbeState.UNKNOWN) -> None:
        super().__init__(message)
        self.state = state


async def probe_tcp(host: str, port: int, timeout_seconds: float) -> ProbeAttempt:
    """Success if a connection can be opened in time."""
    try:
        async with asyncio.timeout(timeout_seconds), opened(host, port):
            return ProbeAttempt(ProbeState.SUCCESS)
    except TimeoutError:
        return ProbeAttempt(ProbeState.FAILURE, f"dial tcp {host_port(host, port)}: i/o timeout")
    except OSError as error:
        return ProbeAttempt(ProbeState.FAILURE, dial_failure(host, port, error))


@asynccontextmanager
async def opened(host: str, port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection for as long as the context lasts; OSError if there is none."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield reader, writer
    finally:
        # Nobody waits for the other side to say goodbye.
        writer.close()
