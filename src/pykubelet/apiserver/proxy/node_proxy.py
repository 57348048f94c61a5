"""Passes requests on to nodes and pods: logs, exec, attach, port-forward, proxied paths.

The request's head is written anew (`request_head`), everything after it is carried as it comes, both ways, until either
side is done. So whatever protocol the two ends upgrade to, WebSocket or SPDY, works without being understood here.

Upstream: pkg/registry/core/pod/rest/{log,subresources}.go, staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go.
"""

import asyncio
import ssl
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from pykubelet.api.errors import NotFound, Unavailable
from pykubelet.api.wire import Document
from pykubelet.apiserver.call import Call
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
        except (OSError, TimeoutError) as error:
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


def request_head(target: ProxyTarget, method: str, headers: Iterable[tuple[str, str]], body_bytes: int) -> bytes:
    """The request line and headers for the next hop; an upgrade is asked for on, anything else ends the connection."""
    given = list(headers)
    upgrade = next((value for name, value in given if name.lower() == "upgrade"), "")
    lines = [f"{method} {target.path} HTTP/1.1", f"Host: {_host(target)}"]
    lines += [f"{name}: {value}" for name, value in given if _goes_on(name.lower())]
    lines += ["Connection: Upgrade", f"Upgrade: {upgrade}"] if upgrade else ["Connection: close"]
    if body_bytes or method not in ("GET", "HEAD"):
        lines.append(f"Content-Length: {body_bytes}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


def _goes_on(name: str) -> bool:
    return name not in _KEPT_BACK and not name.startswith(_KEPT_BACK_FAMILIES)


def _host(target: ProxyTarget) -> str:
    return f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"


async def splice(client: Pipe, server: Pipe) -> None:
    """Carries bytes both ways until either side is done; then both are closed."""
    try:
        async with asyncio.TaskGroup() as group:
            ways = [
                group.create_task(_carry(client.reader, server.writer)),
                group.create_task(_carry(server.reader, client.writer)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
    finally:
        client.writer.close()
        server.writer.close()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(CHUNK_BYTES):
            sink.write(data)
            await sink.drain()
    except OSError:
        return  # the other side is gone: so is the connection
