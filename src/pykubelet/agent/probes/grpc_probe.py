"""Probes a container by the gRPC health protocol, over a connection of its own.

Upstream: pkg/probe/grpc/grpc.go, which dials again and again until its time is up, whatever is in the way.
"""

import asyncio

from pykubelet.agent.probes.dial import opened
from pykubelet.agent.probes.finding import Finding
from pykubelet.agent.probes.grpc_health import (
    connect_timeout,
    judge,
    request_fields,
    request_message,
    rpc_failure,
    rpc_timeout,
)
from pykubelet.agent.probes.http2_call import Answer, CallBroken, UnaryCall
from pykubelet.runtime.go_words import dial_failure, host_port

_PAUSE_SECONDS = 1.0
"""Before dialling again."""


async def probe_grpc(host: str, port: int, service: str, timeout_seconds: int) -> Finding:
    """Whether the service says that it serves."""
    address = host_port(host, port)
    call = UnaryCall(request_fields(address, timeout_seconds), request_message(service))
    try:
        async with asyncio.timeout(timeout_seconds):
            while True:
                try:
                    async with opened(host, port) as (reader, writer):
                        return judge(await _answer(call, reader, writer), timeout_seconds)
                except (CallBroken, OSError) as error:
                    if call.is_connected:
                        why = dial_failure(host, port, error) if isinstance(error, OSError) else str(error)
                        return rpc_failure("Unavailable", why)
                await asyncio.sleep(_PAUSE_SECONDS)
                call = UnaryCall(request_fields(address, timeout_seconds), request_message(service))
    except TimeoutError:
        return rpc_timeout(timeout_seconds) if call.is_connected else connect_timeout(address, timeout_seconds)


async def _answer(call: UnaryCall, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Answer:
    writer.write(call.opening)
    while call.answer is None:
        data = await reader.read(2**14)
        if not data:
            raise CallBroken("error reading from server: EOF")
        writer.write(call.receive(data))
    return call.answer
