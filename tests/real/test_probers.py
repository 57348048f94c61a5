"""Probes against real servers on loopback."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import grpc
import pytest
import trustme
from aiohttp import web

from pykubelet.api.generated.core import HTTPGetAction, HTTPHeader
from pykubelet.httpserver.http_client import http_get_request
from pykubelet.kubelet.prober.grpc_probe import probe_grpc
from pykubelet.kubelet.prober.http_probe import BODY_BYTES, AiohttpProbeClient, probe_http
from pykubelet.kubelet.prober.tcp_probe import ProbeAttempt, ProbeError, ProbeState, probe_tcp
from pykubelet.testing.build import container

HOST = "127.0.0.1"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A raw TCP server; yields its port, and waits at the end until every connection has ended."""
    connections: set[asyncio.Future[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended = asyncio.get_running_loop().create_future()
        connections.add(ended)
        try:
            with suppress(ConnectionError):
                await handler(reader, writer)
                writer.close()
                await writer.wait_closed()
        finally:
            ended.set_result(None)

    server = await asyncio.start_server(handle, HOST, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*connections)


def answering(text: bytes) -> Handler:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(2**14)
        writer.write(text)
        await writer.drain()

    return answer


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.fixture
async def door() -> AsyncIterator[AiohttpProbeClient]:
    door = AiohttpProbeClient()
    yield door
    await door.close()


@pytest.fixture
async def app_port() -> AsyncIterator[int]:
    """The port of a server that returns the path and headers of a request, or redirects."""

    async def show(request: web.Request) -> web.Response:
        return web.json_response({"path": request.raw_path, "headers": dict(request.headers)})

    async def moved(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": request.query["to"]}, text="moved")

    app = web.Application()
    app.router.add_get("/moved", moved)
    app.router.add_get("/{tail:.*}", show)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def asked(
    door: AiohttpProbeClient, port: int, path: str = "/", *, timeout_seconds: float = 5, **fields: str
) -> ProbeAttempt:
    headers = tuple(HTTPHeader(name=name.replace("_", "-"), value=value) for name, value in fields.items())
    scheme = "HTTPS" if path.startswith("tls:") else "HTTP"
    action = HTTPGetAction(path=path.removeprefix("tls:"), port=port, scheme=scheme, http_headers=headers)
    return await probe_http(door, http_get_request(action, container(), pod_ip=HOST, purpose="probe"), timeout_seconds)


async def test_http_probe_sends_what_a_kubelet_sends(door: AiohttpProbeClient, app_port: int) -> None:
    """It sends kube-probe's User-Agent, no Accept-Encoding, `Connection: close`, and an unnormalized path."""
    finding = await asked(door, app_port, "/a/../b%zz c?x=%2F", X_Own="1")
    assert finding.state == ProbeState.SUCCESS
    assert '"path": "/a/../b%25zz%20c?x=%2F"' in finding.output
    for line in ('"User-Agent": "kube-probe/1.34"', '"Accept": "*/*"', '"X-Own": "1"', '"Connection": "close"'):
        assert line in finding.output
    assert "Accept-Encoding" not in finding.output


async def test_http_probe_takes_its_own_host_and_no_empty_accept(door: AiohttpProbeClient, app_port: int) -> None:
    """Headers of the probe replace the defaults, and an empty Accept is not sent."""
    finding = await asked(door, app_port, Host="example.com", Accept="", User_Agent="mine")
    assert '"Host": "example.com"' in finding.output
    assert '"User-Agent": "mine"' in finding.output
    assert '"Accept"' not in finding.output


async def test_http_probe_follows_redirects_within_the_host(door: AiohttpProbeClient, app_port: int) -> None:
    """A redirect to another host is not followed, and the result is a warning."""
    within = await asked(door, app_port, "/moved?to=/next")
    assert within.state == ProbeState.SUCCESS
    assert '"path": "/next"' in within.output
    elsewhere = await asked(door, app_port, "/moved?to=http://example.invalid/")
    assert elsewhere == ProbeAttempt(ProbeState.WARNING, "Probe terminated redirects, Response body: moved")
    circle = await asked(door, app_port, "/moved?to=/moved?to=/moved")
    assert circle.state == ProbeState.FAILURE


async def test_http_probe_trusts_any_certificate(door: AiohttpProbeClient) -> None:
    """The certificate of a container may be self-signed and for another host."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("example.com").configure_cert(context)
    async with listening(answering(b"HTTP/1.1 204 No Content\r\n\r\n"), context) as port:
        assert (await asked(door, port, "tls:/")).state == ProbeState.SUCCESS


async def test_http_probe_reads_only_the_beginning_of_a_body(door: AiohttpProbeClient) -> None:
    """The probe succeeds after BODY_BYTES of a body that does not end."""

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 2**14)
            await writer.drain()

    async with listening(endless) as port:
        finding = await asked(door, port)
    assert (finding.state, len(finding.output)) == (ProbeState.SUCCESS, BODY_BYTES)


@pytest.mark.parametrize(
    ("handler", "path", "words"),
    [
        (answering(b""), "/", "EOF"),
        (answering(b"HTTP/1.1 503 Busy\r\nContent-Length: 6\r\n\r\nsecret"), "/", "statuscode: 503"),
        (answering(b"nonsense\r\n\r\n"), "/", "malformed HTTP response"),
        (answering(b"HTTP/1.1 200 OK\r\n\r\n"), "tls:/", "server gave HTTP response to HTTPS client"),
        (silent, "/", "Client.Timeout exceeded while awaiting headers"),
    ],
    ids=["hangs up", "503", "nonsense", "plain http", "silent"],
)
async def test_http_probe_fails_in_upstream_words(
    door: AiohttpProbeClient, handler: Handler, path: str, words: str
) -> None:
    """The result is a failure, not a ProbeError, and does not contain the body."""
    async with listening(handler) as port:
        finding = await asked(door, port, path, timeout_seconds=0.3)
    assert finding.state == ProbeState.FAILURE
    assert words in finding.output
    assert "secret" not in finding.output


@pytest.mark.parametrize("is_silent", [False, True], ids=["hangs up", "silent"])
async def test_http_body_that_breaks_off_is_an_error(door: AiohttpProbeClient, is_silent: bool) -> None:
    """A body that ends early or stalls raises ProbeError, so that the probe is repeated."""

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        if is_silent:
            await reader.read()

    async with listening(half) as port:
        with pytest.raises(ProbeError) as caught:
            await asked(door, port, timeout_seconds=0.3)
    assert caught.value.state == ProbeState.FAILURE


async def free_port() -> int:
    async with listening(silent) as port:
        return port


async def test_refused_connections_fail_in_upstream_words(door: AiohttpProbeClient) -> None:
    """HTTP, TCP and gRPC probes fail with the messages of upstream."""
    port = await free_port()
    refused = f"dial tcp {HOST}:{port}: connect: connection refused"
    assert await asked(door, port) == ProbeAttempt(ProbeState.FAILURE, f'Get "http://{HOST}:{port}/": {refused}')
    assert await probe_tcp(HOST, port, 1) == ProbeAttempt(ProbeState.FAILURE, refused)
    failure = f'timeout: failed to connect service "{HOST}:{port}" within 1s: context deadline exceeded'
    assert await probe_grpc(HOST, port, "", 1) == ProbeAttempt(ProbeState.FAILURE, failure)


async def test_tcp_probe_succeeds_when_a_server_listens() -> None:
    """The probe sends no data."""
    received: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read())

    async with listening(listen) as port:
        assert await probe_tcp(HOST, port, 1) == ProbeAttempt(ProbeState.SUCCESS)
        while not received:
            await asyncio.sleep(0.01)
    assert received == [b""]


async def test_unknown_host_fails_in_upstream_words(door: AiohttpProbeClient) -> None:
    """A name that does not resolve is a failure too."""
    finding = await probe_tcp("name.invalid", 80, 5)
    assert finding == ProbeAttempt(ProbeState.FAILURE, "dial tcp: lookup name.invalid: no such host")


SERVICES = {b"": b"\x08\x01", b"\x0a\x04good": b"\x08\x01", b"\x0a\x03bad": b"\x08\x02"}


async def check(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
    if request == b"\x0a\x04slow":
        await asyncio.sleep(5)
    if request == b"\x0a\x06strict":
        metadata = dict(context.invocation_metadata() or ())
        return b"\x08\x01" if str(metadata["user-agent"]).startswith("kube-probe/1.34") else b""
    if request not in SERVICES:
        await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service: ü, 100 %")
    await context.send_initial_metadata((("a", "b" * 300), ("c-bin", b"\x00\xff\\")))
    context.set_trailing_metadata((("d", "~{}|"),))
    return SERVICES[request]


@asynccontextmanager
async def grpc_server(service: str = "grpc.health.v1.Health", port: int = 0) -> AsyncIterator[int]:
    server = grpc.aio.server()
    handlers = {"Check": grpc.unary_unary_rpc_method_handler(check)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port(f"{HOST}:{port}")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


@pytest.mark.parametrize(
    ("service", "finding"),
    [
        ("", ProbeAttempt(ProbeState.SUCCESS, "service healthy")),
        ("good", ProbeAttempt(ProbeState.SUCCESS, "service healthy")),
        ("strict", ProbeAttempt(ProbeState.SUCCESS, "service healthy")),
        ("bad", ProbeAttempt(ProbeState.FAILURE, 'service unhealthy (responded with "NOT_SERVING")')),
        (
            "other",
            ProbeAttempt(
                ProbeState.FAILURE,
                "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service: ü, 100 %",
            ),
        ),
    ],
)
async def test_grpc_probe_understands_a_real_server(service: str, finding: ProbeAttempt) -> None:
    """The server is that of the grpc package, and sends metadata of several kinds with the answer."""
    async with grpc_server() as port:
        assert await probe_grpc(HOST, port, service, 5) == finding


async def test_grpc_probe_times_out_in_upstream_words() -> None:
    """The server accepts the connection but does not answer in time."""
    async with grpc_server() as port:
        finding = await probe_grpc(HOST, port, "slow", 1)
    assert finding == ProbeAttempt(ProbeState.FAILURE, "timeout: health rpc did not complete within 1s")


async def test_grpc_probe_says_when_there_is_no_health_service() -> None:
    """The output says that the gRPC server does not implement the health protocol."""
    async with grpc_server("other.Service") as port:
        finding = await probe_grpc(HOST, port, "", 5)
    assert finding.state == ProbeState.FAILURE
    assert "does not implement the grpc health protocol" in finding.output


async def test_grpc_probe_dials_until_its_time_is_up() -> None:
    """A server that starts within the timeout is found."""
    port = await free_port()

    async def later() -> None:
        await asyncio.sleep(0.5)
        async with grpc_server(port=port):
            await asyncio.sleep(3)

    async with asyncio.TaskGroup() as group:
        server = group.create_task(later())
        assert (await probe_grpc(HOST, port, "", 5)).state == ProbeState.SUCCESS
        server.cancel()


@pytest.mark.parametrize(
    "handler",
    [silent, answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"), answering(b"")],
    ids=["silent", "http/1", "hangs up"],
)
async def test_grpc_probe_fails_when_the_server_does_not_speak_http2(handler: Handler) -> None:
    """The server is silent, speaks HTTP/1, or hangs up."""
    async with listening(handler) as port:
        finding = await probe_grpc(HOST, port, "", 1)
    assert finding.state == ProbeState.FAILURE
    assert finding.output.startswith("timeout: failed to connect service")
