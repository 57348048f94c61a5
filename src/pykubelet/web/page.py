"""The HTTP server of the page: checks each request, routes it and sends the response.

The order of the checks: own host, reading method, route, session; then a file, data or a stream. The socket is on
loopback, so there is no TLS (docs/decisions/0008).
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import resources
from typing import NamedTuple

from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import Lagged
from pykubelet.httpserver.connections import ConnectionLimits
from pykubelet.httpserver.listener import LOOPBACK
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import HttpResponse, HttpStream, Write
from pykubelet.httpserver.server import HttpServer, ServerLimits
from pykubelet.web.access import (
    HEADERS,
    Sessions,
    is_from_elsewhere,
    is_own_host,
    session_cookie,
    session_of,
)
from pykubelet.web.feed import PageFeed
from pykubelet.web.object_pages import ObjectPages
from pykubelet.web.pod_pages import PodPages
from pykubelet.web.routes import (
    EVENT_STREAM,
    HELLO,
    KEEP_ALIVE,
    OPEN,
    PageOutcome,
    PagePart,
    PageRoute,
    route,
    see_other,
    sign_in,
    text,
)

log = get_logger(__name__)

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
INDEX = "index.html"
MOST_STREAMS = 32
"""The maximum of concurrent event streams; every change is sent to each."""
_KEEP_ALIVE_SECONDS = 15.0
_LIMITS = ServerLimits(
    line_bytes=16 * 1024,
    field_bytes=16 * 1024,
    headers=64,
    idle_seconds=60.0,
    stop_seconds=1.0,
    stalled_seconds=20.0,
    # One client, loopback, gets half of them: six connections, as browsers open at most, for each stream.
    connections=ConnectionLimits(total=12 * MOST_STREAMS, unauthenticated=128, waiting=256, head_bytes=64 * 1024),
)


class StaticFile(NamedTuple):
    """A file of the page with its content type."""

    content: bytes
    content_type: str


@cache
def static_files() -> dict[str, StaticFile]:
    """The files that ship with the page, by name, read once; only these can be requested."""
    folder = resources.files("pykubelet.web") / "static"
    found = {}
    for file in folder.iterdir():
        content_type = _TYPES.get(file.name.rpartition(".")[2])
        if content_type is not None:
            found[file.name] = StaticFile(file.read_bytes(), content_type)
    return found


class PageAddress(NamedTuple):
    """The page's port, sessions, and where the next link is written."""

    port: int
    place: str
    """The unguessable path prefix of signed-in browsers."""
    sessions: Sessions
    link_file: str
    key_used: Callable[[], Awaitable[None]]
    """Called after a link was used, so that the next one is written."""


class WebPage:
    def __init__(self, *, entrance: PageAddress, live: PageFeed, pods: PodPages, objects: ObjectPages) -> None:
        self._entrance, self._live, self._pods, self._objects = entrance, live, pods, objects
        self._streams = 0

    async def answer(self, request: HttpRequest) -> PageOutcome:
        """The response to a request; every failure becomes a response."""
        headers = request.headers
        if not is_own_host(headers.get("Host", ""), self._entrance.port):
            return text(421, f"this page is at http://127.0.0.1:{self._entrance.port}/ and nowhere else")
        if request.method not in {"GET", "HEAD"}:
            return text(405, "the page is read-only")
        found = route(request.target, self._entrance.place)
        if found is None:
            return text(404, "page not found")
        if found.part not in OPEN:
            if not self._is_signed_in(request):
                return self._refusal(found)
            request.authenticated()
        if found.part not in OPEN | {PagePart.INDEX} and is_from_elsewhere(headers.get("Sec-Fetch-Site", "")):
            return text(403, "only the page itself may request data")
        try:
            return await self._outcome(found, request)
        except Exception as error:  # noqa: BLE001  any failure becomes a response
            log.error("page failed", error=error, part=found.part.value)
            return text(500, "internal error: see the program's log")

    async def _outcome(self, found: PageRoute, request: HttpRequest) -> PageOutcome:
        match found.part:
            case PagePart.ENTRANCE:
                return await self._enter(found, request)
            case PagePart.STATIC:
                return _static(found.names[0])
            case PagePart.INDEX:
                return _static(INDEX)
            case PagePart.STREAM:
                if self._streams >= MOST_STREAMS:
                    return text(503, "too many browsers show this page: close some")
                return HttpStream(EVENT_STREAM, self._stream)
            case PagePart.POD:
                return await self._pods.pod(found)
            case PagePart.LOG:
                return await self._pods.log(found)
            case _:
                return await self._objects.answer(found)

    async def _enter(self, found: PageRoute, request: HttpRequest) -> HttpResponse:
        """Start a session for the key of a link; HEAD, as from link previews, does not use up the key."""
        key, entrance = found.value("key"), self._entrance
        session = entrance.sessions.redeem(key) if key and request.method == "GET" else None
        if session is None:
            return sign_in(entrance.link_file, is_used=bool(key))
        await entrance.key_used()
        return see_other(entrance.place, session_cookie(session, entrance.place))

    def _is_signed_in(self, request: HttpRequest) -> bool:
        cookies = "; ".join(request.headers.getall("Cookie", ()))
        return self._entrance.sessions.is_known(session_of(cookies))

    def _refusal(self, found: PageRoute) -> HttpResponse:
        if found.part is PagePart.INDEX:
            return sign_in(self._entrance.link_file, place=self._entrance.place)
        return text(401, "not signed in")

    async def _stream(self, write: Write) -> None:
        self._streams += 1
        try:
            with self._live.reading() as (everything, changes):
                await write(HELLO + everything)
                while True:
                    try:
                        async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                            part = await changes.next()
                    except TimeoutError:
                        part = KEEP_ALIVE
                    except Lagged:
                        part = self._live.everything()
                    await write(part)
        finally:
            self._streams -= 1


def _static(name: str) -> HttpResponse:
    found = static_files().get(name)
    return HttpResponse(200, *found) if found is not None else text(404, "there is no such file")


def listen(port: int) -> socket.socket:
    """A socket on loopback; on any free port if this one is taken."""
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError:
        if not port:
            raise
        return socket.create_server((LOOPBACK, 0))


def page_server(page: WebPage) -> HttpServer:
    """The HTTP server of the page, without TLS."""
    return HttpServer(page.answer, limits=_LIMITS, malformed=text(400, "malformed request"), headers=HEADERS)
