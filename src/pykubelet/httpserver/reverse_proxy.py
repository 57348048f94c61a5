"""A reverse proxy: sends a request on to another server, and copies the response back as it comes.

A request whose connection breaks before the response is sent again once if its method allows that and it has no body, because
the server may have closed an idle connection at that moment. Nothing is buffered as a whole: each side waits for the other
one. Headers that concern one connection only are removed, also those that `Connection` names, and those that tell about the
client are always the proxy's own. After a protocol upgrade bytes are copied in both directions. An upgrade to HTTP/2 is not
offered to the server, because the requests in it would bypass the proxy (h2c smuggling).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import aiohttp
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from pykubelet.aio.log import get_logger
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.request import text_of
from pykubelet.httpserver.upgrade import HijackedResponse, hijack, hijack_client

log = get_logger(__name__)


_HOP_BY_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})
# What only this proxy tells the server, and what it decides itself. `Proxy` becomes a variable of CGI programs.
_OWN = frozenset({"host", "content-length", "expect", "forwarded", "x-real-ip", "http2-settings", "proxy"})
_OWN_PREFIXES = ("x-forwarded-", "x-original-", "proxy-")
_REFUSED_UPGRADES = ("h2c", "http/", "tls/")
_NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_MAX_RESPONSE_HEAD_BYTES = 64 * 1024
_CHUNK_BYTES = 64 * 1024


class ProxyLimits(NamedTuple):
    """How long a server and a client may take, and how many connections a server gets."""

    connect_seconds: float = 5.0
    head_seconds: float = 60.0
    """From the last byte of the request to the head of the response."""
    client_seconds: float = 60.0
    """How long a client may pause within the body of its request, or not read the response."""
    silent_seconds: float = 3600.0
    """How long a response or an upgraded connection may go without a byte."""
    connections: int = 1024
    """The most connections with one server, in use or idle."""
    keep_alive_seconds: float = 15.0
    """How long an idle connection is kept for further requests."""


class ProxyClient(NamedTuple):
    """The client of a request, as the headers for the server describe it."""

    address: str
    scheme: str
    host: str
    """The `Host` header as the client sent it."""
    port: int
    """The port of the proxy."""


class ProxyError(Exception):
    """A request without a response; nothing was sent to the client yet."""


class CannotConnect(ProxyError):
    """There is no connection to the server: it has seen nothing of the request."""


class BadResponse(ProxyError):
    """The server closed the connection, or its response is not HTTP."""


class NoResponse(ProxyError):
    """The server took too long."""


class BrokenRequest(ProxyError):
    """The client stopped sending, or the body of its request is malformed."""


class ReverseProxy:
    """Sends requests on, with a pool of connections to each server."""

    def __init__(self, session: aiohttp.ClientSession, limits: ProxyLimits, dialer: Dialer) -> None:
        self._session, self._limits, self._dialer = session, limits, dialer

    async def forward(
        self, request: web.BaseRequest, server: tuple[str, int], client: ProxyClient
    ) -> web.StreamResponse:
        """Send a request to a server and the response to the client; raises ProxyError as long as nothing was sent."""
        upgrade = requested_upgrade(request.headers.items()) if not request.body_exists else ""
        headers = request_headers(request.headers.items(), client, upgrade)
        body = _RequestBody(request, self._limits.client_seconds) if request.body_exists else None
        if body is not None and request.content_length is not None:
            headers[hdrs.CONTENT_LENGTH] = str(request.content_length)
        response = await self._ask(request, _url(server, request.raw_path), headers, body)
        try:
            if response.status == 101:
                return await self._splice(request, response, upgrade)
            return await self._copy(request, response)
        finally:
            # A connection with an unread rest is of no more use.
            response.release() if response.content.at_eof() and response.status != 101 else response.close()

    async def _ask(
        self, request: web.BaseRequest, url: URL, headers: CIMultiDict[str], body: "_RequestBody | None"
    ) -> aiohttp.ClientResponse:
        """The response to a request, with its head complete."""
        try:
            async with asyncio.timeout(self._limits.head_seconds) as deadline:
                if body is not None:
                    body.prolongs(deadline, self._limits.head_seconds)
                async with self._dialer.prepared(url.host or ""):
                    return await self._session.request(
                        request.method, url, headers=headers, data=body, allow_redirects=False
                    )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise CannotConnect(str(error) or type(error).__name__) from error
        except TimeoutError as error:
            raise NoResponse(f"no response within {self._limits.head_seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if body is not None and body.problem:
                raise BrokenRequest(body.problem) from error
            raise BadResponse(f"{type(error).__name__}: {error}") from error
        finally:
            if body is not None:
                body.prolongs(None, 0)

    async def _copy(self, request: web.BaseRequest, response: aiohttp.ClientResponse) -> web.StreamResponse:
        headers = response_headers(response.headers.items())
        # Without one aiohttp would add its own version.
        headers.setdefault(hdrs.SERVER, "pykubelet")
        reply = _CopiedResponse(status=response.status, reason=text_of(response.reason or ""), headers=headers)
        try:
            await reply.prepare(request)
        except ValueError as error:
            raise BadResponse(f"the response has an invalid header: {error}") from error
        try:
            while True:
                async with asyncio.timeout(self._limits.silent_seconds):
                    data = await response.content.readany()
                if not data:
                    break
                async with asyncio.timeout(self._limits.client_seconds):
                    await reply.write(data)
            await reply.write_eof()
        except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
            # The end of the body would look regular: the client has to see that it is incomplete.
            log.debug("response broken off", target=request.raw_path[:200], cause=str(error) or type(error).__name__)
            reply.force_close()
            if request.transport is not None:
                request.transport.abort()
        return reply

    async def _splice(
        self, request: web.BaseRequest, response: aiohttp.ClientResponse, upgrade: str
    ) -> web.StreamResponse:
        """Copy bytes in both directions until one side closes, or nothing comes for long."""
        if not upgrade:
            raise BadResponse("the server changed the protocol without being asked")
        try:
            server_reader, server = hijack_client(response)
            client_reader, client = hijack(request)
        except OSError as error:
            raise BadResponse(str(error)) from error
        loop, seconds = asyncio.get_running_loop(), self._limits.silent_seconds
        client.write(_switching_head(response))
        try:
            async with asyncio.timeout(seconds) as deadline:

                async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                    with suppress(OSError):
                        while data := await reader.read(_CHUNK_BYTES):
                            deadline.reschedule(loop.time() + seconds)
                            writer.write(data)
                            await writer.drain()

                async with asyncio.TaskGroup() as group:
                    ways = [
                        group.create_task(copy(client_reader, server)),
                        group.create_task(copy(server_reader, client)),
                    ]
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    for way in ways:
                        way.cancel()
        except TimeoutError:
            log.debug("upgraded connection closed", target=request.raw_path[:200], silent_seconds=seconds)
        finally:
            server.close()
            client.close()
        return HijackedResponse(request, code=101)


@asynccontextmanager
async def reverse_proxy(limits: ProxyLimits, dialer: Dialer) -> AsyncIterator[ReverseProxy]:
    """A proxy for the duration of the context, whose connections have the dialer's sockets."""
    connector = aiohttp.TCPConnector(
        limit=0,
        limit_per_host=limits.connections,
        keepalive_timeout=limits.keep_alive_seconds,
        use_dns_cache=False,
        happy_eyeballs_delay=None,
        socket_factory=dialer.socket_factory,
    )
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=_NOT_ADDED,
        max_line_size=_MAX_RESPONSE_HEAD_BYTES,
        max_field_size=_MAX_RESPONSE_HEAD_BYTES,
        timeout=aiohttp.ClientTimeout(total=None, connect=limits.connect_seconds, sock_read=None),
    ) as session:
        yield ReverseProxy(session, limits, dialer)


class _CopiedResponse(web.StreamResponse):
    """A response without a type if the server gave it none, so that browsers find out; aiohttp would add one."""

    async def _prepare_headers(self) -> None:
        has_type = hdrs.CONTENT_TYPE in self.headers
        await super()._prepare_headers()
        if not has_type:
            self.headers.popall(hdrs.CONTENT_TYPE, None)


class _RequestBody:
    """The body of a request as the client sends it; each byte prolongs the wait for the response."""

    def __init__(self, request: web.BaseRequest, pause_seconds: float) -> None:
        self._request, self._pause_seconds = request, pause_seconds
        self._deadline: asyncio.Timeout | None = None
        self._seconds = 0.0
        self._is_begun = False
        self.problem = ""
        """Why the client's body broke off."""

    def prolongs(self, deadline: asyncio.Timeout | None, seconds: float) -> None:
        """Have each byte move a deadline to this many seconds later."""
        self._deadline, self._seconds = deadline, seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        request = self._request
        if self._is_begun:
            raise ConnectionError("a body can be sent only once")
        self._is_begun = True
        if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        while True:
            try:
                async with asyncio.timeout(self._pause_seconds):
                    data = await request.content.readany()
            except TimeoutError:
                self.problem = f"the client sent nothing for {self._pause_seconds:g} s"
                raise
            except (HttpProcessingError, web.RequestPayloadError) as error:
                self.problem = f"the body is malformed: {error}"
                raise
            if not data:
                return
            self._touch()
            yield data
            self._touch()

    def _touch(self) -> None:
        if self._deadline is not None:
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._seconds)


def request_headers(received: Iterable[tuple[str, str]], client: ProxyClient, upgrade: str = "") -> CIMultiDict[str]:
    """The headers for the server."""
    pairs = list(received)
    dropped = _HOP_BY_HOP | named_by_connection(pairs)
    headers = CIMultiDict((name, text_of(value)) for name, value in pairs if not _is_dropped(name.lower(), dropped))
    headers.update(
        {
            "Host": client.host,
            "X-Real-IP": client.address,
            "X-Forwarded-For": client.address,
            "X-Forwarded-Host": client.host,
            "X-Forwarded-Port": str(client.port),
            "X-Forwarded-Proto": client.scheme,
        }
    )
    if upgrade:
        headers.update({"Connection": "Upgrade", "Upgrade": upgrade})
    return headers


def _is_dropped(name: str, dropped: frozenset[str]) -> bool:
    # Programs that see headers as variables cannot tell a hyphen from an underscore.
    plain = name.replace("_", "-")
    return name in dropped or plain in _HOP_BY_HOP or plain in _OWN or plain.startswith(_OWN_PREFIXES)


def response_headers(received: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
    """The headers for the client."""
    pairs = list(received)
    dropped = _HOP_BY_HOP | named_by_connection(pairs)
    if any(name.lower() == "transfer-encoding" for name, _ in pairs):
        dropped |= {"content-length"}
    return CIMultiDict(
        (name, text_of(value))
        for name, value in pairs
        if name.lower() not in dropped and not name.lower().startswith("proxy-")
    )


def named_by_connection(pairs: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The headers that concern only this connection because `Connection` names them."""
    values = (value for name, value in pairs if name.lower() == "connection")
    # How long a body is must not depend on it.
    return frozenset(one.strip().lower() for value in values for one in value.split(",")) - {"content-length"}


def requested_upgrade(received: Iterable[tuple[str, str]]) -> str:
    """The protocol to which a client wants to change; empty if there is none, or it is HTTP again."""
    pairs = list(received)
    if "upgrade" not in named_by_connection(pairs):
        return ""
    protocol = ", ".join(value for name, value in pairs if name.lower() == "upgrade").strip()
    offered = [one.strip().lower() for one in protocol.split(",")]
    return "" if any(one.startswith(_REFUSED_UPGRADES) for one in offered) else protocol


def _switching_head(response: aiohttp.ClientResponse) -> bytes:
    headers = response_headers(response.headers.items())
    headers.update({"Connection": "Upgrade", "Upgrade": text_of(response.headers.get("Upgrade", ""))})
    lines = (f"{name}: {value}" for name, value in headers.items())
    return "\r\n".join(("HTTP/1.1 101 Switching Protocols", *lines, "", "")).encode()


def _url(server: tuple[str, int], target: str) -> URL:
    """The URL of a target as the client sent it, neither decoded nor normalised."""
    path, _, query = text_of(target).partition("#")[0].partition("?")
    return URL.build(scheme="http", host=server[0], port=server[1], path=path, query_string=query, encoded=True)
