"""The web page without a socket, over a scripted node."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from msgspec import Struct
from multidict import CIMultiDict

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import API_SOURCE
from pykubelet.api.serializer import Document, decode_document
from pykubelet.client.node_view import NodePod, PodProgress, SourceState, UsageReading, pod_key
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import TEXT, HttpError, HttpStream, Write
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.web.feed import PageFeed
from pykubelet.web.tables import ApiTables

PORT = 6480
HOST = f"127.0.0.1:{PORT}"
PLACE = "/view/place/"


class FixedNode:
    """A PageNode with the pods that a test puts there, and fixed explanations, measurements and logs."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.standing = PodProgress(source=API_SOURCE, worker="sync")
        self.asked_for = 0
        self.failure: Exception | None = None

    def put(self, pod: Pod) -> str:
        self.pods[pod_key(pod.metadata.namespace, pod.metadata.name)] = pod
        return pod.metadata.uid

    def keys(self) -> Iterable[str]:
        return tuple(self.pods)

    def key_of(self, uid: str) -> str | None:
        return next((key for key, pod in self.pods.items() if pod.metadata.uid == uid), None)

    def pod(self, key: str) -> NodePod | None:
        self.asked_for += 1
        found = self.pods.get(key)
        return NodePod(found, found.status, self.standing) if found is not None else None

    def sources(self) -> tuple[SourceState, ...]:
        return (SourceState(API_SOURCE, True),)

    async def explain(self, namespace: str, name: str) -> Document | None:
        if self.failure is not None:
            raise self.failure
        known = pod_key(namespace, name) in self.pods
        return {"waitsFor": {"step": "nothing", "what": "nothing"}, "trail": []} if known else None

    def probe_results(self, key: str) -> Iterable[Struct]:
        return ()

    async def usages(self) -> dict[str, UsageReading]:
        return {}

    async def open_log(self, namespace: str, pod: str, container: str, *, previous: bool) -> HttpStream:
        if container != "main":
            raise HttpError(404, f"there is no container {container}")

        async def copy(write: Write) -> None:
            await write(b"previous\n" if previous else b"newest\n")

        return HttpStream(TEXT, copy)


class FeedRig:
    """A feed of a FixedNode and, if given, of an API in memory."""

    def __init__(self, clock: Clock, api: MemoryApi | None = None, **named: str) -> None:
        self.node = FixedNode()
        self.tables = ApiTables(client=api, clock=clock, **named)
        self.feed = PageFeed(
            node=self.node, tables=self.tables, problems=lambda: (), about={"node": "node-1"}, clock=clock
        )


def told(message: bytes) -> tuple[str, Any]:
    """The event and the data of a message to a browser."""
    lines = dict(
        line.split(b": ", 1) for line in message.strip().split(b"\n") if line and not line.startswith(b"retry")
    )
    return lines[b"event"].decode(), decode_document(lines[b"data"])


async def no_body() -> bytes:
    return b""


def asked(target: str, method: str = "GET", *, host: str = HOST, cookie: str = "", fetch_site: str = "") -> HttpRequest:
    headers = {"Host": host, "Cookie": cookie, "Sec-Fetch-Site": fetch_site}
    return HttpRequest(method, target, CIMultiDict(headers), None, "127.0.0.1", no_body)


class Browser:
    """Reads messages from a stream with a pause after each, and disconnects after `stay` messages."""

    def __init__(self, stay: int, pause_seconds: float = 0.0) -> None:
        self.messages: list[bytes] = []
        self._stay, self._pause_seconds = stay, pause_seconds

    async def write(self, data: bytes) -> None:
        self.messages.append(data)
        if len(self.messages) >= self._stay:
            raise ConnectionResetError
        await asyncio.sleep(self._pause_seconds)

    async def read(self, copy: Callable[[Write], Awaitable[None]]) -> None:
        with suppress(ConnectionResetError):
            await copy(self.write)
