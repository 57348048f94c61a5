"""Opens TCP connections, or says why not in the words that users of Kubernetes know.

Upstream: pkg/probe/tcp/tcp.go. It also makes `close` linger for a second; here that would hold up everybody else.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pykubelet.agent.probes.finding import Finding, State
from pykubelet.runtime.go_words import dial_failure, host_port


async def probe_tcp(host: str, port: int, timeout_seconds: float) -> Finding:
    """Success if a connection can be opened in time."""
    try:
        async with asyncio.timeout(timeout_seconds), opened(host, port):
            return Finding(State.SUCCESS)
    except TimeoutError:
        return Finding(State.FAILURE, f"dial tcp {host_port(host, port)}: i/o timeout")
    except OSError as error:
        return Finding(State.FAILURE, dial_failure(host, port, error))


@asynccontextmanager
async def opened(host: str, port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection for as long as the context lasts; OSError if there is none."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield reader, writer
    finally:
        # Nobody waits for the other side to say goodbye.
        writer.close()
