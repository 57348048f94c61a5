"""Proxies requests to nodes and pods: logs, exec, attach, port-forward and proxied paths.

The request head is rewritten and the response is copied as it comes; only a node's error for a log becomes a Status, and
links of HTML pages lead through the proxy (`links.py`).
After a protocol upgrade bytes are copied in both directions, so WebSocket and SPDY work without being parsed here.
Before that, nothing but the one request is sent on: nodes trust this server, so a second request on the connection
would run with its rights (CVE-2018-1002105).

Upstream: pkg/registry/core/pod/rest/log.go, pkg/registry/core/pod/rest/subresources.go,
staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go,
staging/src/k8s.io/apiserver/pkg/registry/generic/rest/response_checker.go
"""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, closing, suppress
from functools import partial
from typing import NamedTuple

from aiohttp import web

from pykubelet.api import errors
from pykubelet.api.field_errors import go_quote
from pykubelet.api.serializer import Document
from pykubelet.apiserver.filters import limits
from pykubelet.apiserver.podproxy import location
from pykubelet.apiserver.podproxy.links import ProxiedLinks, is_page
from pykubelet.apiserver.podproxy.location import ProxyTarget, Query
from pykubelet.apiserver.request import ApiRequest
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.request import pairs, read_target
from pykubelet.httpserver.response import Write
from pykubelet.httpserver.server import read_body
from pykubelet.httpserver.upgrade import READER_PROTOCOLS, HijackedResponse, OneWayWebSocket, hijack, is_web_socket

# Headers that are not proxied: credentials for this server, and those of the connection itself.
_NOT_PROXIED_PREFIXES = ("impersonate-", "x-remote-", "x-forwarded-", "proxy-")
_NOT_PROXIED = frozenset(
    [
        "authorization",
        "cookie",
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "forwarded",
    ]
)
_CODE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})[ \r]")
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*\bchunked[ \t]*\r", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r", re.IGNORECASE)
_CONNECTION = re.compile(rb"\r\n(?:connection|keep-alive):[^\r\n]*", re.IGNORECASE)
MAX_ERROR_BYTES = 50_000
"""The maximum length of a node's error text."""
_NODE_AT_LOOPBACK = (
    ": the node registered a loopback address, but this server listens on the network; "
    "start the node with --bind and an address of its machine"
)
_TIMED_OUT = "the server was unable to return a response in the time allotted, but may still be processing the request"
_OWN_MESSAGES: dict[int, tuple[type[errors.ApiError], str]] = {
    401: (errors.Unauthorized, "the server has asked for the client to provide credentials"),
    404: (errors.NotFound, "the server could not find the requested resource"),
    405: (errors.MethodNotAllowed, "the server does not allow this method on the requested resource"),
    409: (errors.Conflict, "the server reported a conflict"),
    422: (errors.Invalid, "the server rejected our request due to an error in our request"),
    429: (errors.TooManyRequests, "the server has received too many requests and has asked us to try again later"),
    503: (errors.ServiceUnavailable, "the server is currently unable to handle the request"),
    504: (errors.Timeout, _TIMED_OUT),
}
_NODE_MESSAGES = {403: errors.Forbidden, 406: errors.NotAcceptable, 415: errors.UnsupportedMediaType}
MAX_PAGE_BYTES = 16 * 2**20
"""The maximum length of a node's page: the metrics of some ten thousand containers."""
MAX_HTML_BYTES = 4 * 2**20
"""The maximum length of a page whose links are rewritten; it is held in memory, as many times as clients request it."""
CONNECT_SECONDS = 10.0
CHUNK_BYTES = 64 * 1024
# Upstream's timeout for reading a response that is not an upgrade.
ERROR_TEXT_SECONDS = 10.0
PROXIED = (
    *(("pods", name) for name in ("log", "exec", "attach", "portforward", "proxy")),
    ("nodes", "proxy"),
    ("services", "proxy"),
)
"""The resources and subresources that nodes and pods answer."""
UPGRADED = frozenset({"exec", "attach", "portforward"})
"""The subresources that require a protocol upgrade."""


class StreamPair(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class NodeProxy:
    """Resolves the target of a proxied request and connects to it. `get` reads the store.

    With `nodes_at_loopback` the kubelets of nodes may be at loopback addresses of this machine.
    """

    def __init__(
        self,
        get: Callable[[StoreKey], StoreEntry | None],
        node_tls: ssl.SSLContext,
        *,
        nodes_at_loopback: bool,
        dialer: Dialer | None = None,
    ) -> None:
        self._get, self._node_tls, self._nodes_at_loopback = get, node_tls, nodes_at_loopback
        self._dialer = dialer or Dialer()
        self._listening: dict[tuple[str, int], str] = {}
        # Pods may use any certificate; upstream does not verify it either.
        self._pod_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._pod_tls.check_hostname, self._pod_tls.verify_mode = False, ssl.CERT_NONE

    def set_listening(self, reported: str, port: int, address: str) -> None:
        """A kubelet of this process that reports one address of the machine listens at another one, such as loopback."""
        self._listening[reported, port] = address

    def target(self, call: ApiRequest, query: Query, rest: str, raw_query: str) -> ProxyTarget | None:
        """The target of a request; None if the response is empty (the log of an unscheduled pod). Raises ApiError."""
        path = rest if rest.startswith("/") else f"/{rest}"
        plural = call.served.resource.plural
        if call.subresource == "proxy":
            _, name, _ = location.split_name(call.name, plural.removesuffix("s"))
            found = self._required(plural, call.namespace, name)
            if plural == "nodes":
                return location.node_target(found, call.name, path, raw_query)
            if plural == "services":
                endpoints = self._find("endpoints", call.namespace, name)
                return location.service_target(found, endpoints, call.name, path, raw_query)
            return location.pod_target(found, call.name, path, raw_query)
        pod = self._required("pods", call.namespace, call.name)
        node = self._find("nodes", "", pod["spec"].get("nodeName", ""))
        if call.subresource == "log":
            return location.log_target(pod, node, query)
        return location.stream_target(pod, node, call.subresource, query)

    async def open(self, target: ProxyTarget) -> StreamPair:
        """Connects to the target; Unavailable if that fails, BadRequest if its address is not allowed."""
        tls = None if target.scheme == "http" else (self._node_tls if target.is_node else self._pod_tls)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._connect(target, tls)
        except (OSError, TimeoutError, ValueError, OverflowError) as error:
            # A node reports its own address, which may be invalid.
            why = str(error) or f"no answer within {CONNECT_SECONDS:.0f} s"
            raise _unreachable(target, why) from error

    async def _connect(self, target: ProxyTarget, tls: ssl.SSLContext | None) -> StreamPair:
        """Connects to the first address of the target that answers; the addresses are those that were checked."""
        loop = asyncio.get_running_loop()
        host = self._listening.get((target.host, target.port), target.host) if target.is_node else target.host
        found = await loop.getaddrinfo(host, target.port, type=socket.SOCK_STREAM)
        addresses = [str(place[0]) for *_, place in found]
        at_loopback = target.is_node and self._nodes_at_loopback
        if not all(location.is_proxyable(address, at_loopback=at_loopback) for address in addresses):
            at_home = target.is_node and all(location.is_proxyable(address, at_loopback=True) for address in addresses)
            raise errors.BadRequest(f"address not allowed{_NODE_AT_LOOPBACK if at_home else ''}")
        name = host if tls else None
        connect = partial(self._dialer.open_connection, port=target.port, tls=tls, server_hostname=name)
        for address in addresses[:-1]:
            with suppress(OSError):
                return StreamPair(*await connect(address))
        return StreamPair(*await connect(addresses[-1]))

    async def ask(self, target: ProxyTarget, server: StreamPair, request: bytes) -> bytes:
        """Sends a request and returns the response head, however long it takes; Unavailable if none comes."""
        try:
            server.writer.write(request)
            await server.writer.drain()
            head = await server.reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise _unreachable(target, str(error)) from error
        if not status_code(head):
            raise _unreachable(target, "the answer is not HTTP")
        return head

    async def fetch(self, node: Document, path: str) -> bytes:
        """The page at a path of a node's kubelet, which the server itself requests; ApiError if there is none."""
        target = location.node_target(node, node["metadata"]["name"], path, "")
        server = await self.open(target)
        with closing(server.writer):
            head = await self.ask(target, server, request_head(target, "GET", (), 0))
            if (code := status_code(head)) != 200:
                raise _unreachable(target, f"status code {code} for {path}")
            return await self.read_page(target, server, head, MAX_PAGE_BYTES)

    async def read_page(self, target: ProxyTarget, server: StreamPair, head: bytes, most_bytes: int) -> bytes:
        """The whole body of a response; Unavailable if it is too long or breaks off."""
        body = bytearray()
        try:
            await read_response_body(server.reader, head, body, most_bytes)
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise _unreachable(target, str(error)) from error
        if len(body) >= most_bytes or len(body) < (body_length(head) or 0):
            raise _unreachable(target, f"{target.path} is incomplete or too large")
        return bytes(body)

    def _find(self, collection: str, namespace: str, name: str) -> Document | None:
        entry = self._get(StoreKey(collection, namespace, name))
        return None if entry is None else entry.document

    def _required(self, collection: str, namespace: str, name: str) -> Document:
        found = self._find(collection, namespace, name)
        if found is None:
            raise errors.NotFound(f'{collection} "{name}" not found', details={"name": name, "kind": collection})
        return found


class UpgradeAwareHandler:
    """Proxies HTTP requests, with or without a protocol upgrade.

    `admit` gets the options of each connection before it is made, and raises ApiError to reject it.
    """

    def __init__(
        self, proxy: NodeProxy, admit: Callable[[ApiRequest, Document], Awaitable[None]] | None = None
    ) -> None:
        self._proxy, self._admit = proxy, admit

    async def connect(self, call: ApiRequest, rest: str, request: web.BaseRequest) -> web.StreamResponse:
        """Proxies a request; raises ApiError as long as nothing is sent."""
        raw_query = read_target(request.raw_path).raw_query
        if self._admit is not None and call.subresource != "log":
            plural = call.served.resource.plural
            await self._admit(call, location.connect_options(call.subresource, plural, pairs(raw_query), rest))
        target = self._proxy.target(call, pairs(raw_query), rest, raw_query)
        if target is None:
            return web.Response(status=204)
        is_log = call.subresource == "log"
        # The server itself requests the log, so the client's headers do not apply.
        headers = () if is_log else tuple(request.headers.items())
        upgrades = bool(requested_upgrade(headers))
        if call.subresource in UPGRADED and not upgrades:
            raise errors.BadRequest("Upgrade request required")
        is_root = call.subresource == "proxy" and not rest and not upgrades
        if is_root and (place := missing_slash(request.method, request.raw_path)):
            return web.Response(status=301, headers={"Location": place})
        body = await read_body(request, limits.MAX_BODY_BYTES)
        server = await self._proxy.open(target)
        with closing(server.writer):
            head = await self._proxy.ask(
                target, server, request_head(target, request.method, headers, len(body)) + body
            )
            code = status_code(head)
            if is_log and is_log_error(code):
                raise log_error(code, await read_error_text(server.reader, head, MAX_ERROR_BYTES), call.name)
            if is_log and is_web_socket(request.headers):
                copy = partial(_copy_messages, server.reader, head)
                return await OneWayWebSocket(copy, limits.STALLED_SECONDS, READER_PROTOCOLS).serve(request)
            if upgrades and code != 101 and code < 400:
                raise errors.ApiError(f"invalid upgrade response: status code {code}")
            if call.subresource == "proxy" and code != 101:
                links = _links(target, request, rest)
                head = links.response_head(head)
                if is_page(request.method, code, head):
                    page = await self._proxy.read_page(target, server, head, MAX_HTML_BYTES)
                    await send_page(request, links, closing_head(head), page)
                    return HijackedResponse(request, code=code)
            await splice(StreamPair(*hijack(request)), server, head, changed=upgrades and code == 101)
        return HijackedResponse(request, code=code)


async def splice(client: StreamPair, server: StreamPair, head: bytes, *, changed: bool) -> None:
    """Copies a response back, and in both directions after an upgrade; then closes both connections."""
    try:
        client.writer.write(head if changed else closing_head(head))
        async with asyncio.TaskGroup() as group:
            ways = [
                group.create_task(_copy(client.reader, server.writer if changed else None)),
                group.create_task(_copy(server.reader, client.writer, None if changed else body_length(head))),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
    finally:
        client.writer.close()
        server.writer.close()


async def send_page(request: web.BaseRequest, links: ProxiedLinks, head: bytes, page: bytes) -> None:
    """Sends a page with its links to the client, then closes the connection; ServiceUnavailable if it is malformed."""
    try:
        response = await asyncio.to_thread(links.response, head, page, MAX_HTML_BYTES)
    except ValueError as error:
        raise errors.ServiceUnavailable(f"error trying to read a page of {links.target_host}: {error}") from error
    with closing(hijack(request)[1]) as writer, suppress(OSError):
        writer.write(response)
        await writer.drain()


def _links(target: ProxyTarget, request: web.BaseRequest, rest: str) -> ProxiedLinks:
    prefix = read_target(request.raw_path).path.removesuffix(rest).rstrip("/")
    return ProxiedLinks(prefix, target.authority, request.host)


def request_head(target: ProxyTarget, method: str, headers: Sequence[tuple[str, str]], body_bytes: int) -> bytes:
    """The request line and headers for the next hop; without an upgrade the connection closes after the response."""
    upgrade = requested_upgrade(headers)
    lines = [f"{method} {target.path} HTTP/1.1", f"Host: {target.authority}"]
    for name, value in headers:
        if name.lower() not in _NOT_PROXIED and not name.lower().startswith(_NOT_PROXIED_PREFIXES):
            lines.append(f"{name}: {value}")
    lines += ["Connection: Upgrade", f"Upgrade: {upgrade}"] if upgrade else ["Connection: close"]
    if body_bytes or method not in ("GET", "HEAD"):
        lines.append(f"Content-Length: {body_bytes}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


def missing_slash(method: str, target: str) -> str:
    """Where to read the root of what is proxied, so that its relative links lead below it; empty if this is the place."""
    path, question, query = target.partition("?")
    return "" if path.endswith("/") or method not in ("GET", "HEAD") else f"{path}/{question}{query}"


def requested_upgrade(headers: Sequence[tuple[str, str]]) -> str:
    """The protocol of a requested upgrade; empty if there is none."""
    if not any(name.lower() == "connection" and "upgrade" in value.lower() for name, value in headers):
        return ""
    return next((value for name, value in headers if name.lower() == "upgrade"), "")


def status_code(head: bytes) -> int:
    found = _CODE.match(head)
    return int(found[1]) if found else 0


def body_length(head: bytes) -> int | None:
    """The length of the response body; None if it ends with the connection."""
    found = _LENGTH.search(head)
    return int(found[1]) if found else None


def is_chunked(head: bytes) -> bool:
    return _CHUNKED.search(head) is not None


def closing_head(head: bytes) -> bytes:
    """The response head with `Connection: close`."""
    return _CONNECTION.sub(b"", head[:-2]) + b"Connection: close\r\n\r\n"


def is_log_error(code: int) -> bool:
    """Whether a response with this code is an error instead of a log."""
    return not 200 <= code <= 206


def log_error(code: int, text: str, pod_name: str) -> errors.ApiError:
    """The error for a node's response. Upstream has its own messages for some codes, which hide the node's text."""
    if code == 400:
        return errors.BadRequest(text)
    if code == 500:
        return errors.InternalError(f"Internal error occurred: {text}", details={"causes": [{"message": text}]})
    if code in _NODE_MESSAGES:
        kind, message = _NODE_MESSAGES[code], text
    elif code in _OWN_MESSAGES:
        kind, message = _OWN_MESSAGES[code]
    elif code > 500:
        kind = errors.InternalError
        message = f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
    else:
        kind = errors.ApiError
        message = f"the server responded with the status code {code} but did not return more information"
    # Upstream omits the verb, but not the blank after it.
    return kind(f"{message} ( pods/log {pod_name})", details={"name": pod_name, "kind": "pods/log"})


def _unreachable(target: ProxyTarget, why: str) -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable(f"error trying to reach {target.host}:{target.port}: {why}")


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter | None, count: int | None = None) -> None:
    """Copies everything, or a number of bytes; without a writer, only waits for the end."""
    left = count
    try:
        while left != 0 and (data := await source.read(CHUNK_BYTES if left is None else min(left, CHUNK_BYTES))):
            left = None if left is None else left - len(data)
            if sink is not None:
                sink.write(data)
                await sink.drain()
    except OSError:
        return  # the other side closed the connection


async def read_error_text(source: asyncio.StreamReader, head: bytes, most_bytes: int) -> str:
    """The start of a response body as text, up to a size and a time limit."""
    body = bytearray()
    with suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(ERROR_TEXT_SECONDS):
            await read_response_body(source, head, body, most_bytes)
    return body.decode(errors="replace")


async def read_response_body(source: asyncio.StreamReader, head: bytes, body: bytearray, most_bytes: int) -> None:
    """Adds a response body to `body` as it comes, up to a size; an error of `response_chunks` if it breaks off."""
    async with aclosing(response_chunks(source, head)) as chunks:
        async for data in chunks:
            body += data[: most_bytes - len(body)]
            if len(body) == most_bytes:
                return


async def response_chunks(source: asyncio.StreamReader, head: bytes) -> AsyncGenerator[bytes, None]:
    """A response body as it comes; ValueError, EOFError or OSError if it is malformed or breaks off."""
    if not is_chunked(head):
        left = body_length(head)
        while left != 0 and (data := await source.read(CHUNK_BYTES if left is None else min(left, CHUNK_BYTES))):
            left = None if left is None else left - len(data)
            yield data
        return
    while (size := int((await source.readline()).partition(b";")[0], 16)) > 0:
        while size:
            data = await source.read(min(size, CHUNK_BYTES))
            if not data:
                raise asyncio.IncompleteReadError(b"", size)
            size -= len(data)
            yield data
        await source.readline()


async def _copy_messages(source: asyncio.StreamReader, head: bytes, write: Write) -> None:
    """Sends a response body as messages, after an empty one that shows that the connection stands."""
    await write(b"")
    with suppress(ValueError, EOFError, OSError):
        async with aclosing(response_chunks(source, head)) as chunks:
            async for data in chunks:
                await write(data)
