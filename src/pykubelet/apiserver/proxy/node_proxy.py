"""Passes requests on to nodes and pods: logs, exec, attach, port-forward, proxied paths.

The request's head is written anew (`heads.py`), the answer is carried back as it comes. Once the other side has
agreed to another protocol, everything is carried both ways until either is done, so WebSocket or SPDY works without
being understood here. Before that nothing more of the caller goes on: we are trusted over there, and a second request
behind the first would be taken for ours (CVE-2018-1002105).

Upstream: pkg/registry/core/pod/rest/{log,subresources}.go, staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go.
"""

import asyncio
import ssl
from typing import NamedTuple, Protocol

from pykubelet.api.errors import NotFound, Unavailable
from pykubelet.api.wire import Document
from pykubelet.apiserver.call import Call
from pykubelet.apiserver.proxy.heads import answer_bytes, changes_protocol, last_head
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

PROXIED = (
    *(("pods", name) for name in ("log", "exec", "attach", "portforward", "proxy")),
    ("nodes", "proxy"),
    ("services", "proxy"),
)
"""The resources and subresources that are answered by somebody else."""


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
            raise Unavailable(f"error trying to reach {target.host}:{target.port}: {why}") from error

    def _look_up(self, collection: str, namespace: str, name: str) -> Document | None:
        entry = self._objects.get(Key(collection, namespace, name))
        return None if entry is None else entry.document

    def _required(self, collection: str, namespace: str, name: str) -> Document:
        found = self._look_up(collection, namespace, name)
        if found is None:
            raise NotFound(f'{collection} "{name}" not found', details={"name": name, "kind": collection})
        return found


async def splice(client: Pipe, server: Pipe, *, upgrades: bool) -> None:
    """Carries the answer back, and if that changes the protocol as asked everything both ways; then both are closed."""
    changed = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            ways = [
                group.create_task(_carry_on(client.reader, server.writer, changed)),
                group.create_task(_carry_back(server.reader, client.writer, changed if upgrades else None)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
    finally:
        client.writer.close()
        server.writer.close()


async def _carry_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter, changed: asyncio.Event) -> None:
    """What the caller sends, once the protocol has changed; until then only whether it is still there."""
    try:
        first = await source.read(CHUNK_BYTES)
    except OSError:
        return
    if first:
        await changed.wait()
        sink.write(first)
        await _carry(source, sink)


async def _carry_back(source: asyncio.StreamReader, sink: asyncio.StreamWriter, changed: asyncio.Event | None) -> None:
    """The answer; `changed` is set if it agrees to change the protocol, and None if nobody asked for that."""
    try:
        head = await source.readuntil(b"\r\n\r\n")
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return
    if changed is not None and changes_protocol(head):
        sink.write(head)
        changed.set()
        await _carry(source, sink)
    else:
        sink.write(last_head(head))
        await _carry(source, sink, answer_bytes(head))


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, count: int | None = None) -> None:
    """All there is, or so many bytes of it."""
    left = count
    try:
        while left != 0 and (data := await source.read(CHUNK_BYTES if left is None else min(left, CHUNK_BYTES))):
            sink.write(data)
            left = None if left is None else left - len(data)
            await sink.drain()
    except OSError:
        return  # the other side is gone: so is the connection
