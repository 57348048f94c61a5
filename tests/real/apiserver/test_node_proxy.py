"""Requests proxied to a node over real TLS sockets: plain responses, upgrades, and errors."""

import asyncio
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web

from pykubelet.api.errors import ApiError, BadRequest, ServiceUnavailable
from pykubelet.api.serializer import encode
from pykubelet.apiserver.podproxy.handler import MAX_HTML_BYTES, NodeProxy, UpgradeAwareHandler, request_head
from pykubelet.apiserver.podproxy.location import ProxyTarget
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.request import ANONYMOUS, ApiRequest
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey

PODS = next(served for served in BUILT_IN_KINDS if served.resource.group_resource == "pods")
NODES = next(served for served in BUILT_IN_KINDS if served.resource.group_resource == "nodes")
CALL = ApiRequest(user=ANONYMOUS, verb="get", served=PODS, namespace="ns", name="web", subresource="log")


class Objects:
    """A store with one pod on a node that listens at a port."""

    def __init__(self, port: int) -> None:
        pod = {
            "metadata": {"namespace": "ns", "name": "web"},
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
            "status": {"podIP": "192.0.2.1"},
        }
        endpoint = {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
        node = {"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], **endpoint}}
        self._all: dict[StoreKey, Any] = {StoreKey("pods", "ns", "web"): pod, StoreKey("nodes", "", "n1"): node}

    def get(self, key: StoreKey) -> StoreEntry | None:
        return StoreEntry(key, 1, encode(self._all[key])) if key in self._all else None


async def node(request: web.Request) -> web.StreamResponse:
    """A fake node: logs echo the request, exec is an echoing WebSocket, attach gives 404, portForward no upgrade."""
    assert "Authorization" not in request.headers
    if request.path.startswith("/attach"):
        return web.Response(status=404, text="container not found")
    if request.path.startswith("/portForward"):
        return web.Response(text="which port?")
    if request.path == "/page":
        text = f'<a href="/{request.method}">' + "x" * int(request.query.get("more", 0))
        return web.Response(text=text, content_type="text/html")
    if request.path == "/old":
        return web.Response(status=302, headers={"Location": "/page"})
    if code := request.query.get("sinceSeconds"):
        return await refused_log(request, int(code), in_chunks=request.query["tailLines"] == "1")
    if request.path.startswith("/exec"):
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(b"\x01" + message.data)
        return socket
    response = web.StreamResponse()
    await response.prepare(request)
    for part in (request.path_qs, " ", (await request.read()).decode()):
        await response.write(part.encode())
    return response


async def refused_log(request: web.Request, code: int, *, in_chunks: bool) -> web.StreamResponse:
    """Answer a log request with an error text, in chunks or as one long body."""
    if not in_chunks:
        return web.Response(status=code, text="no log: " + "x" * 60_000)
    response = web.StreamResponse(status=code)
    await response.prepare(request)
    for part in (b"no ", b"log"):
        await response.write(part)
    return response


@pytest.fixture
async def front() -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """A bare HTTP server with the proxy, in front of a fake node."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(serving)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", node)
    node_runner = web.AppRunner(app, shutdown_timeout=0.1)
    await node_runner.setup()
    await web.TCPSite(node_runner, "127.0.0.1", 0, ssl_context=serving).start()
    passing = UpgradeAwareHandler(NodeProxy(Objects(node_runner.addresses[0][1]).get, trusting, nodes_at_loopback=True))

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        try:
            if request.path.startswith("/n1/proxy/"):
                call = replace(CALL, served=NODES, namespace="", name="n1", subresource="proxy")
                return await passing.connect(call, request.path.removeprefix("/n1/proxy/"), request)
            return await passing.connect(replace(CALL, subresource=request.path.rpartition("/")[2]), "", request)
        except ApiError as error:
            return web.json_response(error.to_status(), status=error.code)

    runner = web.ServerRunner(web.Server(respond, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving).start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}", trusting
    await runner.cleanup()
    await node_runner.cleanup()


async def test_answer_of_the_node_comes_through_without_the_callers_credentials(
    front: tuple[str, ssl.SSLContext],
) -> None:
    """The Authorization header does not reach the node; a second request works too."""
    url, trusting = front
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as http:
        for lines in (5, 7):
            query = {"tailLines": str(lines)}
            async with http.get(f"{url}/log", params=query, headers={"Authorization": "Bearer secret"}) as response:
                assert (response.status, await response.text()) == (200, f"/containerLogs/ns/web/c?tailLines={lines} ")


@pytest.mark.parametrize(
    "protocols", [(), ("other", "binary.k8s.io"), ("base64.binary.k8s.io",)], ids=["plain", "binary", "base64"]
)
async def test_log_is_sent_as_messages_of_a_web_socket(
    front: tuple[str, ssl.SSLContext], protocols: tuple[str, ...]
) -> None:
    """After an empty message come the bytes of the log, and the end of the log closes the connection in order."""
    url, trusting = front
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as http,
        http.ws_connect(f"{url}/log?tailLines=5", protocols=protocols) as socket,
    ):
        assert socket.protocol == (protocols[-1] if protocols else None)
        await socket.send_bytes(b"ignored")
        messages = [message.data async for message in socket]
        assert socket.close_code == 1000
    parts = [b64decode(one) if isinstance(one, str) else one for one in messages]
    assert isinstance(messages[0], str) == ("base64.binary.k8s.io" in protocols)
    assert (parts[0], b"".join(parts)) == (b"", b"/containerLogs/ns/web/c?tailLines=5 ")


@pytest.mark.parametrize(
    ("protocol", "query", "code"),
    [("v4.channel.k8s.io", "tailLines=5", 403), ("binary.k8s.io", "sinceSeconds=400&tailLines=1", 400)],
    ids=["protocol", "log"],
)
async def test_refused_web_socket_gets_an_http_response(
    front: tuple[str, ssl.SSLContext], protocol: str, query: str, code: int
) -> None:
    """An unknown subprotocol is refused, and an error of the node is a Status."""
    url, trusting = front
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(f"{url}/log?{query}", protocols=(protocol,))
        assert refused.value.status == code


async def test_root_of_a_proxied_pod_moves_to_where_its_links_lead(front: tuple[str, ssl.SSLContext]) -> None:
    """The pod itself is not asked."""
    url, trusting = front
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as http,
        http.get(f"{url}/proxy", params={"page": "2"}, allow_redirects=False) as response,
    ):
        assert (response.status, response.headers["Location"]) == (301, "/proxy/?page=2")


async def test_redirects_and_pages_lead_through_the_proxy(front: tuple[str, ssl.SSLContext]) -> None:
    """The application at the other end does not know the path of the proxy. A HEAD request gets no page, nor does one for too long a page."""
    url, trusting = front
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as http:
        async with http.get(f"{url}/n1/proxy/old") as response:
            assert (response.url.path, await response.text()) == ("/n1/proxy/page", '<a href="/n1/proxy/GET">')
        async with http.head(f"{url}/n1/proxy/page") as response:
            assert (response.status, await response.read()) == (200, b"")
        async with http.get(f"{url}/n1/proxy/page", params={"more": MAX_HTML_BYTES}) as response:
            assert (response.status, "too large" in await response.text()) == (503, True)


async def test_upgraded_connection_carries_bytes_both_ways(front: tuple[str, ssl.SSLContext]) -> None:
    """The node selects the WebSocket subprotocol, and messages of any size are echoed."""
    url, trusting = front
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as http,
        http.ws_connect(f"{url}/exec?command=cat&stdin=true", protocols=("v5.channel.k8s.io",)) as socket,
    ):
        assert socket.protocol == "v5.channel.k8s.io"
        for size in (1, 70_000, 1_000_000):
            await socket.send_bytes(b"x" * size)
            assert await socket.receive_bytes() == b"\x01" + b"x" * size


@pytest.mark.parametrize(
    ("code", "in_chunks", "message"),
    [
        (400, True, "no log"),
        (400, False, "no log: " + "x" * (50_000 - 8)),
        (500, True, "Internal error occurred: no log"),
        (404, True, "the server could not find the requested resource ( pods/log web)"),
    ],
    ids=["words", "many-words", "failure", "unknown"],
)
async def test_refused_log_is_a_status_with_the_nodes_words(
    front: tuple[str, ssl.SSLContext], code: int, *, in_chunks: bool, message: str
) -> None:
    """A chunked or plain error text becomes the message, truncated to upstream's limit."""
    url, trusting = front
    query = {"sinceSeconds": str(code), "tailLines": "1" if in_chunks else "2"}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as http,
        http.get(f"{url}/log", params=query) as response,
    ):
        status = await response.json()
    assert (response.status, status["kind"], status["message"]) == (code, "Status", message)


@pytest.mark.parametrize(
    ("path", "headers", "code", "words"),
    [
        ("exec", {}, 400, "Upgrade request required"),
        ("attach", {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}, 404, "container not found"),
        (
            "portforward",
            {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"},
            500,
            "invalid upgrade response: status code 200",
        ),
    ],
    ids=["not-asked", "refused", "confused"],
)
async def test_failed_upgrade_reports_the_reason(
    front: tuple[str, ssl.SSLContext], path: str, headers: dict[str, str], code: int, words: str
) -> None:
    """The client sent no upgrade, the node refuses it with its own message, or the node answers 200."""
    url, trusting = front
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as http,
        http.post(f"{url}/{path}", headers=headers) as response,
    ):
        assert response.status == code
        assert words in await response.text()


async def test_refused_upgrade_lets_no_second_request_through(front: tuple[str, ssl.SSLContext]) -> None:
    """The node trusts the connection, so a request pipelined after a refused upgrade must not reach it.

    This was CVE-2018-1002105.
    """
    url, trusting = front
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), ssl=trusting)
    wanted = "Host: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    second = "GET /run/ns/web/c?cmd=id HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    writer.write(f"GET /attach HTTP/1.1\r\n{wanted}\r\n{second}".encode())
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\ncontainer not found")


async def test_client_disconnect_cancels_the_request_to_a_silent_node() -> None:
    """A node may take long to answer; its connection closes when the client disconnects."""
    authority = trustme.CA()
    serving, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    authority.configure_trust(trusting)
    asked, gone = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0, ssl=serving)
    passing = UpgradeAwareHandler(
        NodeProxy(Objects(server.sockets[0].getsockname()[1]).get, trusting, nodes_at_loopback=True)
    )
    runner = web.ServerRunner(
        web.Server(lambda request: passing.connect(CALL, "", request), handler_cancellation=True), shutdown_timeout=0.1
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving).start()
    _, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1], ssl=trusting)
    writer.write(b"GET /log HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.wait_for(asked.wait(), 10)
    writer.close()
    await asyncio.wait_for(gone.wait(), 10)
    await runner.cleanup()
    server.close()
    assert gone.is_set()


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-x\r\n\r\n", b"x" * 70_000], ids=["none", "not-http", "endless"])
async def test_node_that_does_not_speak_http_is_unreachable(answer: bytes) -> None:
    """An empty, non-HTTP or endless response is reported as ServiceUnavailable."""

    def say(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    target = ProxyTarget("127.0.0.1", server.sockets[0].getsockname()[1], "/", scheme="http")
    proxy = NodeProxy(Objects(1).get, ssl.create_default_context(), nodes_at_loopback=True)
    pipe = await proxy.open(target)
    with pytest.raises(ServiceUnavailable, match="error trying to reach"):
        await proxy.ask(target, pipe, request_head(target, "GET", (), 0))
    pipe.writer.close()
    server.close()


async def test_unreachable_and_untrusted_nodes_are_reported() -> None:
    """A closed port and a certificate of an unknown authority give an error with the reason."""
    authority = trustme.CA()
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    proxy = NodeProxy(Objects(port).get, ssl.create_default_context(), nodes_at_loopback=True)
    with pytest.raises(Exception, match=f"error trying to reach 127.0.0.1:{port}: .*certificate verify failed"):
        await proxy.open(ProxyTarget("127.0.0.1", port, "/"))
    server.close()
    await server.wait_closed()
    with pytest.raises(Exception, match=f"error trying to reach 127.0.0.1:{port}: .*"):
        await proxy.open(ProxyTarget("127.0.0.1", port, "/"))


@pytest.mark.parametrize(
    ("host", "port"),
    [("192.0.2.1\r\nX: y", 1), ("a" * 70, 1), ("nul\0", 1), ("127.0.0.1", 2**31 - 1)],
    ids=["lines", "long-label", "nul", "port"],
)
async def test_node_with_an_invalid_address_or_port_is_unreachable(host: str, port: int) -> None:
    """Address and port come from the node's status and cannot be trusted."""
    proxy = NodeProxy(Objects(1).get, ssl.create_default_context(), nodes_at_loopback=True)
    with pytest.raises(ServiceUnavailable, match="error trying to reach"):
        await proxy.open(ProxyTarget(host, port, "/"))


LOOPBACK = ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost", "127.1", "2130706433")
FORBIDDEN = (
    *("0.0.0.0", "::", "::ffff:0.0.0.0", "0", "169.254.169.254", "::ffff:169.254.169.254", "fe80::1"),
    *("fe80::1%lo", "224.0.0.1", "ff02::1", "::ffff:224.0.0.1", "255.255.255.255", "::127.0.0.1"),
)


@pytest.mark.parametrize(
    ("host", "is_node", "nodes_at_loopback"),
    [
        *((host, True, False) for host in (*LOOPBACK, *FORBIDDEN)),
        *((host, True, True) for host in FORBIDDEN),
        *((host, False, True) for host in (*LOOPBACK, *FORBIDDEN)),
    ],
)
async def test_address_of_this_machine_alone_is_not_reached(
    host: str,
    is_node: bool,
    nodes_at_loopback: bool,
) -> None:
    """A node may report any address of itself and its pods; no byte reaches what listens here on loopback."""
    reached = asyncio.Event()

    def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        writer.close()

    server = await asyncio.start_server(accept, port=0)
    port = server.sockets[0].getsockname()[1]
    proxy = NodeProxy(Objects(1).get, ssl.create_default_context(), nodes_at_loopback=nodes_at_loopback)
    with pytest.raises(BadRequest, match="address not allowed") as refusal:
        await proxy.open(ProxyTarget(host, port, "/", scheme="http", is_node=is_node))
    assert ("start the node with --bind" in str(refusal.value)) == (is_node and host in LOOPBACK)
    await asyncio.sleep(0)
    server.close()
    assert not reached.is_set()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::ffff:127.0.0.1"])
async def test_node_beside_a_server_on_loopback_is_reached(host: str) -> None:
    """While the server itself listens on loopback, its nodes are on this machine."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    target = ProxyTarget(host, server.sockets[0].getsockname()[1], "/", scheme="http")
    opened = await NodeProxy(Objects(1).get, ssl.create_default_context(), nodes_at_loopback=True).open(target)
    assert opened.writer.get_extra_info("peername")[1] == target.port
    opened.writer.close()
    server.close()


def test_request_head_keeps_back_what_is_ours() -> None:
    """Authorization, impersonation, forged identity and hop-by-hop headers do not reach the node."""
    headers = [
        ("Authorization", "Bearer x"),
        ("X-Remote-User", "root"),
        ("Impersonate-User", "root"),
        ("Te", "trailers"),
    ]
    headers += [
        ("Test", "kept"),
        ("Upgrade", "SPDY/3.1"),
        ("Connection", "Upgrade"),
        ("X-Stream-Protocol-Version", "v4"),
    ]
    head = request_head(ProxyTarget("::1", 10250, "/exec/a"), "POST", headers, 0)
    assert head.decode().split("\r\n") == [
        "POST /exec/a HTTP/1.1",
        "Host: [::1]:10250",
        "Test: kept",
        "X-Stream-Protocol-Version: v4",
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
        "Content-Length: 0",
        "",
        "",
    ]
