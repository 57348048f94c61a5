"""Probes a container by opening a TCP connection; defines the result of a probe attempt.

Errors have Go's texts. Other than upstream, closing does not linger for a second, which would block the kubelet.

Upstream: pkg/probe/tcp/tcp.go, pkg/probe/probe.go
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.http_failure import dial_failure, host_port


class ProbeState(StrEnum):
    """The result of an attempt, worded as in events. WARNING is a success with a message."""

    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ProbeAttempt:
    """The container's response, or its failure to respond in time."""

    state: ProbeState
    output: str = ""


class ProbeError(Exception):
    """The attempt could not be completed, which says nothing about the container."""

    def __init__(self, message: str, state: ProbeState = ProbeState.UNKNOWN) -> None:
        super().__init__(message)
        self.state = state


async def probe_tcp(host: str, port: int, timeout_seconds: float, dialer: Dialer | None = None) -> ProbeAttempt:
    """Succeed if a connection can be opened in time."""
    try:
        async with asyncio.timeout(timeout_seconds), opened(host, port, dialer or Dialer()):
            return ProbeAttempt(ProbeState.SUCCESS)
    except TimeoutError:
        return ProbeAttempt(ProbeState.FAILURE, f"dial tcp {host_port(host, port)}: i/o timeout")
    except OSError as error:
        return ProbeAttempt(ProbeState.FAILURE, dial_failure(host, port, error))


@asynccontextmanager
async def opened(
    host: str, port: int, dialer: Dialer
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection for the duration of the context; raises OSError if that fails."""
    reader, writer = await dialer.open_connection(host, port)
    try:
        yield reader, writer
    finally:
        # Does not wait for the other side to close.
        writer.close()
