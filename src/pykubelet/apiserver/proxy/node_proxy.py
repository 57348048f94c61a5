"""Passes requests on to nodes and pods: logs, exec, attach, port-forward, proxied paths.

The request's head is written anew (`heads.py`), the answer is carried back as it comes; only what a node says instead
of a log becomes a Status (`node_answers.py`). Once the other side has agreed to another protocol, everything is carried
both ways until either is done, so WebSocket or SPDY works without being understood here. Before that nothing more of
the caller goes on: we are trusted over there, and a second request behind the first would be taken for ours
(CVE-2018-1002105).

Upstream: pkg/registry/core/pod/rest/{log,subresources}.go, staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import NamedTuple, Protocol

from pykubelet.api.errors import NotFound, Unavailable
from pykubelet.api.wire import Document
from pykubelet.apiserver.call import Call
from pykubelet.apiserver.proxy.heads import answer_bytes, answer_code, is_chunked, last_head
from pykubelet.apiserver.proxy.proxy_targets import (
    ProxyTarget,
    Query,
    log_target,
    node_target,
    pod_target,
    service_target,
    split_name,
    stream_target,
)
from pykubelet.apiserver.store import Entry, Key

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


class Objects(Protocol):
    """Where pods, nodes and endpoints are looked up."""

    def get(self, key: Key) -> Entry | None:
        """The object under a key."""


class Pipe(NamedTuple):
    """Both directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class NodeProxy:
    """Finds out where a request goes on to, and connects there."""

    def __init__(self, objects: Objects, node_tls: ssl.SSLContext) -> None:
        self._objects, self._node_tls = objects, node_tls
        # What runs in a pod has whatever certificate it likes; upstream does not check it either.
        self._pod_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._pod_tls.check_hostname, self._pod_tls.verify_mode = False, ssl.CERT_NONE

    def target(self, call: Call, query: Query, rest: str, raw_query: str) -> ProxyTarget | None:
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

    async def open(self, target: ProxyTarget) -> Pipe:
        """A connection there; Unavailable if there is none to be had."""
        tls = None if target.scheme == "http" else (self._node_tls if target.is_node else self._pod_tls)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return Pipe(*await asyncio.open_connection(target.host, target.port, ssl=tls))
        except (OSError, TimeoutError, ValueError, OverflowError) as error:
            # A node may say anything of itself: an address that is none, a port beyond all ports.
            why = str(error) or f"no answer within {CONNECT_SECONDS:.0f} s"
            raise _unreachable(target, why) from error

    async def ask(self, target: ProxyTarget, server: Pipe, request: bytes) -> bytes:
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
        entry = self._objects.get(Key(collection, namespace, name))
        return None if entry is None else entry.document

    def _required(self, collection: str, namespace: str, name: str) -> Document:
        found = self._look_up(collection, namespace, name)
        if found is None:
            raise NotFound(f'{collection} "{name}" not found', details={"name": name, "kind": collection})
        return found


def _unreachable(target: ProxyTarget, why: str) -> Unavailable:
    return Unavailable(f"error trying to reach {target.host}:{target.port}: {why}")


async def splice(client: Pipe, server: Pipe, head: bytes, *, changed: bool) -> None:
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
