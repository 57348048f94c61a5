"""Passes requests on to nodes and pods: logs, exec, attach, port-forward, proxied paths.

The request's head is written anew (`heads.py`), the answer is carried back as it comes; only what a node says instead
of a log becomes a Status (`node_answers.py`). Once the other side has agreed to another protocol, everything is carried
both ways until either is done, so WebSocket or SPDY works without being understood here. Before that nothing more of
the caller goes on: we are trusted over there, and a second request behind the first would be taken for ours
(CVE-2018-1002105).

Upstream: pkg/registry/core/pod/rest/{log,subresources}.go, staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go.

Passes a request on to a node or pod; once that answers, the connection is taken from HTTP.

In: a request that somebody else answers. Out: nothing more over HTTP; the bytes of the answer are theirs, and the
connection ends with it. As long as nothing is sent, whatever goes wrong is an ApiError.

Upstream: pkg/registry/core/pod/rest/{log,subresources}.go, tryUpgrade in
staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go

What a node's refusal of a log becomes for the caller (pure).

In: the code and the words of the node's answer. Out: the ApiError that tells them. Where upstream has words of its own for a code, the node's are not shown.

Upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/rest/response_checker.go, NewGenericServerResponse in
staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go

Heads of requests and answers that are passed on (pure).

In: a request's headers and where it goes, or the first lines of an answer. Out: what is sent instead.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go, Go's net/http/httputil/reverseproxy.go
"""

import asyncio
import re
import ssl
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import NamedTuple, Protocol

from aiohttp import web

from pykubelet.api.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
)
from pykubelet.api.field_errors import go_quote
from pykubelet.api.serializer import Document
from pykubelet.apiserver.filters import limits
from pykubelet.apiserver.podproxy.location import (
    ProxyTarget,
    Query,
    log_target,
    node_target,
    pod_target,
    service_target,
    split_name,
    stream_target,
)
from pykubelet.apiserver.request import ApiRequest
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.httpserver.request import pairs, read_target
from pykubelet.httpserver.server import read_body
from pykubelet.httpserver.upgrade import HijackedResponse, hijack

# Never passed on: what proves to us who asks is nobody else's, and the next hop has a connection of its own.
_KEPT_BACK_FAMILIES = ("impersonate-", "x-remote-", "x-forwarded-", "proxy-")
_KEPT_BACK = frozenset(
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


def request_head(target: ProxyTarget, method: str, headers: Sequence[tuple[str, str]], body_bytes: int) -> bytes:
    """The request line and headers for the next hop; an upgrade is asked for on, anything else ends the connection."""
    upgrade = asked_upgrade(headers)
    lines = [f"{method} {target.path} HTTP/1.1", f"Host: {_host(target)}"]
    lines += [f"{name}: {value}" for name, value in headers if _goes_on(name.lower())]
    lines += ["Connection: Upgrade", f"Upgrade: {upgrade}"] if upgrade else ["Connection: close"]
    if body_bytes or method not in ("GET", "HEAD"):
        lines.append(f"Content-Length: {body_bytes}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


def _goes_on(name: str) -> bool:
    return name not in _KEPT_BACK and not name.startswith(_KEPT_BACK_FAMILIES)


def _host(target: ProxyTarget) -> str:
    return f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"


def asked_upgrade(headers: Sequence[tuple[str, str]]) -> str:
    """The protocol that a request wants to change to; empty if it does not."""
    if not any(name.lower() == "connection" and "upgrade" in value.lower() for name, value in headers):
        return ""
    return next((value for name, value in headers if name.lower() == "upgrade"), "")


def answer_code(head: bytes) -> int:
    """The code of an answer; 0 if it is none of HTTP."""
    found = _CODE.match(head)
    return int(found[1]) if found else 0


def answer_bytes(head: bytes) -> int | None:
    """How long the body of an answer is; None if only its end tells."""
    found = _LENGTH.search(head)
    return int(found[1]) if found else None


def is_chunked(head: bytes) -> bool:
    """Whether the body of an answer comes in chunks, each with its length."""
    return _CHUNKED.search(head) is not None


def last_head(head: bytes) -> bytes:
    """The head of an answer after which the connection ends."""
    return _CONNECTION.sub(b"", head[:-2]) + b"Connection: close\r\n\r\n"


MOST_BYTES = 50_000
"""How much of a node's words is read."""

_OWN_WORDS: dict[int, tuple[type[ApiError], str]] = {
    401: (Unauthorized, "the server has asked for the client to provide credentials"),
    404: (NotFound, "the server could not find the requested resource"),
    405: (MethodNotAllowed, "the server does not allow this method on the requested resource"),
    409: (Conflict, "the server reported a conflict"),
    422: (Invalid, "the server rejected our request due to an error in our request"),
    429: (TooManyRequests, "the server has received too many requests and has asked us to try again later"),
    503: (ServiceUnavailable, "the server is currently unable to handle the request"),
    504: (
        Timeout,
        "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
}
_NODES_WORDS: dict[int, type[ApiError]] = {403: Forbidden, 406: NotAcceptable, 415: UnsupportedMediaType}


def is_log_error(code: int) -> bool:
    """Whether an answer with this code has no log in it."""
    return not 200 <= code <= 206


def log_error(code: int, text: str, pod_name: str) -> ApiError:
    """The error for such an answer."""
    if code == 400:
        return BadRequest(text)
    if code == 500:
        return InternalError(f"Internal error occurred: {text}", details={"causes": [{"message": text}]})
    if code in _NODES_WORDS:
        kind, message = _NODES_WORDS[code], text
    elif code in _OWN_WORDS:
        kind, message = _OWN_WORDS[code]
    elif code > 500:
        kind = InternalError
        message = f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
    else:
        kind = ApiError
        message = f"the server responded with the status code {code} but did not return more information"
    # Upstream leaves out the verb, but not the blank after it.
    return kind(f"{message} ( pods/log {pod_name})", details={"name": pod_name, "kind": "pods/log"})


CONNECT_SECONDS = 10.0
CHUNK_BYTES = 64 * 1024
# Upstream's for an answer that is no upgrade.
WORDS_SECONDS = 10.0

PROXIED = (
    *(("pods", name) for name in ("log", "exec", "attach", "portforward", "proxy")),
    ("nodes", "proxy"),
    ("services", "proxy"),
)
"""The resources and subresources that are answered by somebody else."""
UPGRADED = frozenset({"exec", "attach", "portforward"})
"""The subresources for which a connection must change its protocol."""


class ProxiedObjects(Protocol):
    """Where pods, nodes and endpoints are looked up."""

    def get(self, key: StoreKey) -> StoreEntry | None:
        """The object under a key."""


class StreamPair(NamedTuple):
    """Both directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class NodeProxy:
    """Finds out where a request goes on to, and connects there."""

    def __init__(self, objects: ProxiedObjects, node_tls: ssl.SSLContext) -> None:
        self._objects, self._node_tls = objects, node_tls
        # What runs in a pod has whatever certificate it likes; upstream does not check it either.
        self._pod_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._pod_tls.check_hostname, self._pod_tls.verify_mode = False, ssl.CERT_NONE

    def target(self, call: ApiRequest, query: Query, rest: str, raw_query: str) -> ProxyTarget | None:
        """Where a call goes on to; None if the answer is known to be empty. Raises ApiError."""
        path = rest if rest.startswith("/") else f"/{rest}"
        plural = call.served.resource.plural
        if call.subresource == "proxy":
            _, name, _ = split_name(call.name, plural.removesuffix("s"))
            found = self._required(plural, call.namespace, name)
            if plural == "nodes":
                return node_target(found, call.name, path, raw_query)
            if plural == "services":
                endpoints = self._look_up("endpoints", call.namespace, name)
                return service_target(found, endpoints, call.name, path, raw_query)
            return pod_target(found, call.name, path, raw_query)
        pod = self._required("pods", call.namespace, call.name)
        node = self._look_up("nodes", "", pod["spec"].get("nodeName", ""))
        if call.subresource == "log":
            return log_target(pod, node, query)
        return stream_target(pod, node, call.subresource, query)

    async def open(self, target: ProxyTarget) -> StreamPair:
        """A connection there; Unavailable if there is none to be had."""
        tls = None if target.scheme == "http" else (self._node_tls if target.is_node else self._pod_tls)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return StreamPair(*await asyncio.open_connection(target.host, target.port, ssl=tls))
        except (OSError, TimeoutError, ValueError, OverflowError) as error:
            # A node may say anything of itself: an address that is none, a port beyond all ports.
            why = str(error) or f"no answer within {CONNECT_SECONDS:.0f} s"
            raise _unreachable(target, why) from error

    async def ask(self, target: ProxyTarget, server: StreamPair, request: bytes) -> bytes:
        """Sends a request; the head of the answer, for which there may be long to wait. Unavailable if none comes."""
        try:
            server.writer.write(request)
            await server.writer.drain()
            head = await server.reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise _unreachable(target, str(error)) from error
        if not answer_code(head):
            raise _unreachable(target, "the answer is not HTTP")
        return head

    def _look_up(self, collection: str, namespace: str, name: str) -> Document | None:
        entry = self._objects.get(StoreKey(collection, namespace, name))
        return None if entry is None else entry.document

    def _required(self, collection: str, namespace: str, name: str) -> Document:
        found = self._look_up(collection, namespace, name)
        if found is None:
            raise NotFound(f'{collection} "{name}" not found', details={"name": name, "kind": collection})
        return found


def _unreachable(target: ProxyTarget, why: str) -> ServiceUnavailable:
    return ServiceUnavailable(f"error trying to reach {target.host}:{target.port}: {why}")


async def splice(client: StreamPair, server: StreamPair, head: bytes, *, changed: bool) -> None:
    """Carries an answer back, and if that changes the protocol everything both ways; then both are closed."""
    try:
        client.writer.write(head if changed else last_head(head))
        async with asyncio.TaskGroup() as group:
            ways = [
                group.create_task(_carry(client.reader, server.writer if changed else None)),
                group.create_task(_carry(server.reader, client.writer, None if changed else answer_bytes(head))),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
    finally:
        client.writer.close()
        server.writer.close()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter | None, count: int | None = None) -> None:
    """All there is, or so many bytes of it; to nobody, if only the end of it matters."""
    left = count
    try:
        while left != 0 and (data := await source.read(CHUNK_BYTES if left is None else min(left, CHUNK_BYTES))):
            left = None if left is None else left - len(data)
            if sink is not None:
                sink.write(data)
                await sink.drain()
    except OSError:
        return  # the other side is gone: so is the connection


async def short_text(source: asyncio.StreamReader, head: bytes, most_bytes: int) -> str:
    """The body of an answer that is told on as text; as much of it as comes, and no more than is good."""
    body = bytearray()
    with suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(WORDS_SECONDS):
            if is_chunked(head):
                while len(body) < most_bytes and (size := int((await source.readline()).partition(b";")[0], 16)) > 0:
                    body += await source.readexactly(min(size, most_bytes - len(body)))
                    await source.readline()
            else:
                length = answer_bytes(head)
                wanted = most_bytes if length is None else min(length, most_bytes)
                while len(body) < wanted and (data := await source.read(wanted - len(body))):
                    body += data
    return body.decode(errors="replace")


class UpgradeAwareHandler:
    """Answers requests by passing them on."""

    def __init__(self, proxy: NodeProxy) -> None:
        self._proxy = proxy

    async def connect(self, call: ApiRequest, rest: str, request: web.BaseRequest) -> web.StreamResponse:
        """Connect the caller to where the call leads; raises ApiError as long as nothing is sent."""
        raw_query = read_target(request.raw_path).raw_query
        target = self._proxy.target(call, pairs(raw_query), rest, raw_query)
        if target is None:
            return web.Response(status=204)
        is_log = call.subresource == "log"
        # A log is asked for by us; what is said about it between the caller and us is not the node's concern.
        headers = () if is_log else tuple(request.headers.items())
        upgrades = bool(asked_upgrade(headers))
        if call.subresource in UPGRADED and not upgrades:
            raise BadRequest("Upgrade request required")
        body = await read_body(request, limits.MAX_BODY_BYTES)
        server = await self._proxy.open(target)
        with closing(server.writer):
            head = await self._proxy.ask(
                target, server, request_head(target, request.method, headers, len(body)) + body
            )
            code = answer_code(head)
            if is_log and is_log_error(code):
                raise log_error(code, await short_text(server.reader, head, MOST_BYTES), call.name)
            if upgrades and code != 101 and code < 400:
                raise ApiError(f"invalid upgrade response: status code {code}")
            await splice(StreamPair(*hijack(request)), server, head, changed=upgrades and code == 101)
        return HijackedResponse(request, code=code)
