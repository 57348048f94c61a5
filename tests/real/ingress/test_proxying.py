"""The ingress controller's ports over real connections: headers, bodies, upgrades, errors, and attempts to smuggle."""

import asyncio
import io
import re
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from ingress_lab import (
    HOST,
    LOOPBACK,
    SECONDS,
    IngressLab,
    backend_server,
    echo_server,
    endpoints,
    ingress,
    ingress_lab,
)
from pykubelet.api.generated.networking import IngressTLS
from pykubelet.httpserver import reverse_proxy
from pykubelet.httpserver.dialer import Dialer

_MIB = 2**20


@pytest.fixture
async def lab() -> AsyncIterator[IngressLab]:
    async with ingress_lab() as found:
        found.routes.put(ingress("web", (HOST, "Prefix", "/", "web")))
        yield found


def _code(response: bytes) -> int:
    found = re.match(rb"HTTP/1\.[01] ([0-9]{3})", response)
    assert found, response
    return int(found[1])


async def test_request_reaches_the_backend_as_it_was_sent(lab: IngressLab) -> None:
    async with echo_server() as server:
        lab.serve(server.port)
        assert _code(await lab.get("/a%2fb/../c//d?x=%20&y=%7E")) == 200
        assert server.received[0].startswith(b"GET /a%2fb/../c//d?x=%20&y=%7E HTTP/1.1\r\nHost: web.example.com\r\n")


async def test_headers_about_the_client_are_never_the_clients(lab: IngressLab) -> None:
    async with echo_server() as server:
        lab.serve(server.port)
        names = ("X-Forwarded-For", "x_forwarded_for", "X-Forwarded-Proto", "X-FORWARDED-HOST", "X-Forwarded-Prefix")
        more = ("X-Real-IP", "X_Real_Ip", "Forwarded", "X-Original-URI", "Proxy", "Proxy-Authorization")
        await lab.get("/", *(f"{name}: spoofed" for name in (*names, *more)))
        (head,) = server.received
        assert b"spoofed" not in head
        expected = {
            "X-Forwarded-For": LOOPBACK,
            "X-Real-IP": LOOPBACK,
            "X-Forwarded-Proto": "http",
            "X-Forwarded-Host": HOST,
            "X-Forwarded-Port": str(lab.http_port),
        }
        for name, value in expected.items():
            assert head.count(f"\r\n{name}: {value}\r\n".encode()) == 1, head


async def test_headers_of_one_connection_are_not_passed_on(lab: IngressLab) -> None:
    async with echo_server() as server:
        lab.serve(server.port)
        lines = ["Connection: X-Hop, Host, X-Forwarded-For", "X-Hop: 1", "Keep-Alive: 5", "TE: trailers", "Trailer: X"]
        lines += ["Transfer_Encoding: chunked", "Keep_Alive: 5"]
        await lab.get("/", *lines, "X-Kept: 2", "Upgrade: h2c", "HTTP2-Settings: AAA", "Connection: upgrade")
        (head,) = server.received
        names = {line.partition(b":")[0].lower().replace(b"_", b"-") for line in head.split(b"\r\n")[1:] if line}
        assert {b"x-kept", b"host", b"x-forwarded-for"} <= names
        assert names.isdisjoint(
            {b"connection", b"x-hop", b"keep-alive", b"te", b"trailer", b"upgrade", b"http2-settings"}
            | {b"transfer-encoding"}
        )


async def test_response_is_passed_on_without_headers_of_its_connection(lab: IngressLab) -> None:
    reply = (
        b"HTTP/1.1 299 Odd\r\nServer: app\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"
        b"Keep-Alive: timeout=5\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()

    async with backend_server(serve) as server:
        lab.serve(server.port)
        response = await lab.get()
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 299 Odd\r\n")
    assert body == b"abc"
    for kept in (b"Server: app", b"Set-Cookie: a=1", b"Set-Cookie: b=2", b"Content-Encoding: gzip"):
        assert head.count(kept) == 1
    for dropped in (b"X-Hop", b"Keep-Alive", b"Content-Type", b"pykubelet"):
        assert dropped not in head


async def test_slow_body_is_seen_as_slowly_as_it_is_sent(lab: IngressLab) -> None:
    more = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in range(3):
            writer.write(b"8\r\ndata: %d\n\r\n" % number)
            await writer.drain()
            await more.wait()
            more.clear()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async with backend_server(serve) as server, aiohttp.ClientSession() as session:
        lab.serve(server.port)
        async with session.get(f"http://{LOOPBACK}:{lab.http_port}/", headers={"Host": HOST}) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            for number in range(3):
                # The backend sends the next one only after this one has arrived.
                async with asyncio.timeout(SECONDS):
                    assert await response.content.readany() == b"data: %d\n" % number
                more.set()
            assert await response.content.read() == b""


async def test_slow_upload_is_seen_as_slowly_as_it_is_sent(lab: IngressLab) -> None:
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def upload(request: web.Request) -> web.Response:
        async for data in request.content.iter_any():
            received.put_nowait(data)
        return web.Response(text=f"{request.headers.get('Content-Length')}")

    async with _app(upload) as port:
        lab.serve(port)
        reader, writer = await lab.connect()
        writer.write(f"POST / HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(3):
            writer.write(b"2\r\nab\r\n")
            async with asyncio.timeout(SECONDS):
                assert await received.get() == b"ab"
        writer.write(b"0\r\n\r\n")
        assert _code(await reader.readuntil(b"\r\n\r\n")) == 200
        writer.close()


async def test_upload_of_many_megabytes_keeps_its_length(lab: IngressLab) -> None:
    async def upload(request: web.Request) -> web.Response:
        size = 0
        async for data in request.content.iter_any():
            size += len(data)
        return web.json_response([size, request.headers.get("Content-Length")])

    async with _app(upload) as port, aiohttp.ClientSession() as session:
        lab.serve(port)
        body, headers = bytes(64 * _MIB), {"Host": HOST, "Expect": "100-continue"}
        async with session.put(
            f"http://{LOOPBACK}:{lab.http_port}/x", data=io.BytesIO(body), headers=headers
        ) as response:
            assert await response.json() == [len(body), str(len(body))]


async def test_response_of_many_megabytes_waits_for_a_slow_client(lab: IngressLab) -> None:
    written = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (256 * _MIB))
        for _ in range(256):
            writer.write(bytes(_MIB))
            await writer.drain()
            written += 1

    async with backend_server(serve) as server, echo_server("other") as other:
        lab.serve(server.port)
        lab.routes.put(ingress("other", ("other.example.com", "Prefix", "/", "other")))
        lab.serve(other.port, name="other")
        reader, writer = await lab.connect()
        writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert _code(head) == 200
        # Others are served meanwhile, and nothing that the client has not read piles up.
        for _ in range(50):
            assert (await lab.get(host="other.example.com")).endswith(b"other")
        assert written < 64
        size = 0
        while data := await reader.read(_MIB):
            size += len(data)
        assert size == 256 * _MIB
        writer.close()


async def test_broken_off_response_is_seen_as_broken_off(lab: IngressLab) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await writer.drain()

    async with backend_server(serve) as server, aiohttp.ClientSession() as session:
        lab.serve(server.port)
        async with session.get(f"http://{LOOPBACK}:{lab.http_port}/", headers={"Host": HOST}) as response:
            with pytest.raises(aiohttp.ClientError):
                await response.read()


async def test_client_that_leaves_ends_the_request_at_the_backend(lab: IngressLab) -> None:
    arrived, ended = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        assert await reader.read() == b""
        ended.set()

    async with backend_server(serve) as server:
        lab.serve(server.port)
        _, writer = await lab.connect()
        writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        async with asyncio.timeout(SECONDS):
            await arrived.wait()
            writer.close()
            await ended.wait()


async def test_web_socket_carries_messages_both_ways(lab: IngressLab) -> None:
    async def chat(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("chat",))
        await socket.prepare(request)
        await socket.send_str("first")
        async for message in socket:
            await socket.send_str(f"{request.headers['X-Forwarded-For']} {message.data}")
        return socket

    async with _app(chat) as port, aiohttp.ClientSession() as session:
        lab.serve(port)
        url, headers = f"http://{LOOPBACK}:{lab.http_port}/chat", {"Host": HOST}
        async with session.ws_connect(url, headers=headers, protocols=("chat",)) as client:
            assert client.protocol == "chat"
            assert await client.receive_str() == "first"
            for number in range(100):
                await client.send_str(f"m{number}" * 1000)
                assert await client.receive_str() == f"{LOOPBACK} " + f"m{number}" * 1000


async def test_upgrade_to_any_protocol_carries_bytes_until_one_side_closes(lab: IngressLab) -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"\r\nUpgrade: odd/1\r\n" in head
        # Bytes that come together with the head belong to the new protocol.
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: odd/1\r\n\r\nhello")
        while data := await reader.read(100):
            writer.write(data.upper())
        ended.set()

    async with backend_server(serve) as server:
        lab.serve(server.port)
        reader, writer = await lab.connect()
        writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: odd/1\r\n\r\n".encode())
        async with asyncio.timeout(SECONDS):
            assert _code(await reader.readuntil(b"\r\n\r\n")) == 101
            assert await reader.readexactly(5) == b"hello"
            writer.write(b"more")
            assert await reader.readexactly(4) == b"MORE"
            writer.close()
            await ended.wait()


async def test_upgrade_that_the_backend_refuses_is_an_ordinary_response(lab: IngressLab) -> None:
    async with echo_server("no") as server:
        lab.serve(server.port)
        response = await lab.get("/", "Upgrade: websocket", "Connection: Upgrade")
        assert _code(response) == 200
        assert response.endswith(b"no")


async def test_change_of_protocol_without_a_request_for_it_is_refused(lab: IngressLab) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")

    async with backend_server(serve) as server:
        lab.serve(server.port)
        assert _code(await lab.get()) == 502


_HEAD = f"POST /a HTTP/1.1\r\nHost: {HOST}\r\n"
_SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: web.example.com\r\n\r\n"
SMUGGLING = {
    "both lengths": f"{_HEAD}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{_SMUGGLED}",
    "both lengths, reversed": f"{_HEAD}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n{_SMUGGLED}",
    "two lengths": f"{_HEAD}Content-Length: 0\r\nContent-Length: 5\r\n\r\n{_SMUGGLED}",
    "list of lengths": f"{_HEAD}Content-Length: 0, 0\r\n\r\n{_SMUGGLED}",
    "signed length": f"{_HEAD}Content-Length: +0\r\n\r\n{_SMUGGLED}",
    "negative length": f"{_HEAD}Content-Length: -1\r\n\r\n{_SMUGGLED}",
    "hexadecimal length": f"{_HEAD}Content-Length: 0x0\r\n\r\n{_SMUGGLED}",
    "unknown coding": f"{_HEAD}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{_SMUGGLED}",
    "coding that is not last": f"{_HEAD}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{_SMUGGLED}",
    "coding before chunked": f"{_HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{_SMUGGLED}",
    "two codings": f"{_HEAD}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{_SMUGGLED}",
    "space before the colon": f"{_HEAD}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{_SMUGGLED}",
    "folded line": f"{_HEAD}X: a\r\n Transfer-Encoding: chunked\r\n\r\n{_SMUGGLED}",
    "vertical tab": f"{_HEAD}Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n{_SMUGGLED}",
    "bare line feed": f"POST /a HTTP/1.1\nHost: {HOST}\nContent-Length: 0\n\n{_SMUGGLED}",
    "nul": f"{_HEAD}X: a\0b\r\nContent-Length: 0\r\n\r\n{_SMUGGLED}",
    "chunk size with sign": f"{_HEAD}Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n{_SMUGGLED}",
    "chunk size with prefix": f"{_HEAD}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n{_SMUGGLED}",
    "chunk without its end": f"{_HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\nab0\r\n\r\n{_SMUGGLED}",
    "two hosts": f"POST /a HTTP/1.1\r\nHost: {HOST}\r\nHost: other.example.com\r\nConnection: close\r\n\r\n",
    "no host": "GET /a HTTP/1.1\r\nConnection: close\r\n\r\n",
    "host with a path": "GET /a HTTP/1.1\r\nHost: web.example.com/x\r\nConnection: close\r\n\r\n",
    "host with a user": "GET /a HTTP/1.1\r\nHost: a@web.example.com\r\nConnection: close\r\n\r\n",
    "another host in the target": f"GET http://x.y/a HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n",
    "tunnel to a path": f"CONNECT /a HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n{_SMUGGLED}",
    "tunnel": f"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n",
}


@pytest.mark.parametrize("request_text", SMUGGLING.values(), ids=SMUGGLING.keys())
async def test_request_that_two_servers_could_read_differently_is_refused(lab: IngressLab, request_text: str) -> None:
    async with echo_server("ok") as server:
        lab.serve(server.port)
        async with asyncio.timeout(SECONDS):
            response = await lab.send(request_text.encode("latin-1"))
        codes = [int(code) for code in re.findall(rb"HTTP/1\.[01] ([0-9]{3})", response)]
        assert codes
        assert 200 not in codes, response
        assert not [head for head in server.received if b"smuggled" in head]


async def test_requests_of_one_connection_share_a_connection_to_the_backend(lab: IngressLab) -> None:
    async with echo_server("ok") as server:
        lab.serve(server.port)
        for _ in range(20):
            assert (await lab.get()).endswith(b"ok")
        assert server.connections == 1


async def test_endpoints_take_turns_and_dead_ones_are_passed_over(lab: IngressLab) -> None:
    async with echo_server("one") as one, echo_server("two") as two:
        async with echo_server() as gone:
            dead = gone.port
        lab.serve(one.port, two.port, dead)
        bodies = [(await lab.get())[-3:] for _ in range(12)]
        assert {bodies.count(b"one"), bodies.count(b"two")} <= {4, 8}
        assert len(one.received) + len(two.received) == 12


async def test_backend_without_endpoints_is_503_and_then_served(lab: IngressLab) -> None:
    async with echo_server("ok") as server:
        lab.serve()
        assert _code(await lab.get()) == 503
        lab.serve(server.port)
        assert _code(await lab.get()) == 200
        for each in endpoints(server.port):
            lab.backends.remove_slice(each)
        assert _code(await lab.get()) == 503


async def test_failures_of_backends_are_502(lab: IngressLab) -> None:
    heads: list[bytes] = []

    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

    async def nothing(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))

    for serve in (garbage, nothing):
        async with backend_server(serve) as server:
            lab.serve(server.port)
            assert _code(await lab.get()) == 502
            for method in ("POST", "PUT"):
                body = "Content-Length: 2\r\nConnection: close\r\n\r\nab"
                assert _code(await lab.send(f"{method} / HTTP/1.1\r\nHost: {HOST}\r\n{body}".encode())) == 502
                # A request that the backend may have acted on is not sent again.
                assert len([head for head in heads if head.startswith(method.encode())]) == 1
            heads.clear()
            for each in endpoints(server.port):
                lab.backends.remove_slice(each)
    lab.serve(1)
    assert _code(await lab.get()) == 502


@pytest.mark.parametrize("body", [None, b"x" * 100])
async def test_backend_that_never_answers_is_504(body: bytes | None) -> None:
    async def hang(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    limits = reverse_proxy.ProxyLimits(head_seconds=0.3)
    async with backend_server(hang) as server, reverse_proxy.reverse_proxy(limits, Dialer()) as proxy:

        async def forward(request: web.BaseRequest) -> web.StreamResponse:
            client = reverse_proxy.ProxyClient(LOOPBACK, "http", HOST, 80)
            with pytest.raises(reverse_proxy.NoResponse):
                await proxy.forward(request, (LOOPBACK, server.port), client)
            return web.Response(text="504")

        async with (
            _app(forward) as port,
            aiohttp.ClientSession() as session,
            session.post(f"http://{LOOPBACK}:{port}/", data=body) as response,
        ):
            assert await response.text() == "504"


async def test_host_and_path_without_a_route_is_404(lab: IngressLab) -> None:
    assert _code(await lab.get(host="nobody.example.com")) == 404


async def test_host_with_tls_redirects_unless_an_annotation_says_no(lab: IngressLab) -> None:
    tls = (IngressTLS(hosts=(HOST,), secret_name="web"),)
    rule = (HOST, "Prefix", "/", "web")
    async with echo_server("ok") as server:
        lab.serve(server.port)
        lab.routes.put(ingress("web", rule, tls=tls))
        response = await lab.get("/a%20b?c=d", host=f"{HOST}:{lab.http_port}")
        assert _code(response) == 308
        assert f"\r\nLocation: https://{HOST}:{lab.https_port}/a%20b?c=d\r\n".encode() in response
        for name in ("ingress.pykubelet.io/ssl-redirect", "nginx.ingress.kubernetes.io/ssl-redirect"):
            lab.routes.put(ingress("web", rule, tls=tls, annotations={name: "false"}))
            assert _code(await lab.get()) == 200


async def test_routes_change_while_requests_are_under_way(lab: IngressLab) -> None:
    async with echo_server("one") as one, echo_server("two") as two:
        lab.serve(one.port, name="one")
        lab.serve(two.port, name="two")
        lab.routes.put(ingress("web", (HOST, "Prefix", "/", "one")))
        stopping = asyncio.Event()
        seen: list[bytes] = []

        async def ask() -> None:
            while not stopping.is_set():
                seen.append(await lab.get())

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(ask())
            for number in range(40):
                lab.routes.put(ingress("web", (HOST, "Prefix", "/", ("one", "two")[number % 2])))
                before = len(seen)
                while len(seen) < before + 3:
                    await asyncio.sleep(0.001)
            stopping.set()
        assert {response[-3:] for response in seen} == {b"one", b"two"}
        assert {_code(response) for response in seen} == {200}


class _app:  # noqa: N801  used as a context
    """An aiohttp application with one handler, on a free port of loopback."""

    def __init__(self, handler: object) -> None:
        self._runner = web.ServerRunner(web.Server(handler))  # type: ignore[arg-type]

    async def __aenter__(self) -> int:
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, 0)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def __aexit__(self, *_error: object) -> None:
        await self._runner.cleanup()
