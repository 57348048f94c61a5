"""Probes a container by HTTP: asks, follows redirects within the host, judges the last answer.

Upstream: pkg/probe/http/http.go

The door of probes to HTTP: one GET, one answer, no redirects.

Certificates are not checked (a container has one of its own making), no proxy is asked, no connection is kept and no
cookie. What goes wrong is told in the words of Go's client, which users of Kubernetes know from events.

Upstream: pkg/probe/http/http.go

What an HTTP answer means to a probe, and whether it leads elsewhere.

Any answer from 200 to 399 is a success; one that still is a redirect is a success with a warning. Redirects are followed
within the host. Pure. Upstream: pkg/probe/http/http.go (DoHTTPProbe, RedirectChecker)
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urljoin, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pykubelet.httpserver.http_client import Headers, HttpGetRequest, redirected_headers, request_failure
from pykubelet.kubelet.prober.tcp_probe import ProbeAttempt, ProbeError, ProbeState

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class HttpProbeResponse:
    """What a server said; `body` is its beginning."""

    status: int
    location: str | None
    body: bytes


class HttpProbeError(Exception):
    """There was no answer, or none that can be used; says why."""


def judge(answer: HttpProbeResponse) -> ProbeAttempt:
    """What an answer means."""
    text = answer.body.decode(errors="replace")
    if 200 <= answer.status < 300:
        return ProbeAttempt(ProbeState.SUCCESS, text)
    if 300 <= answer.status < 400:
        return ProbeAttempt(ProbeState.WARNING, f"Probe terminated redirects, Response body: {text}")
    # Without the body: events are read by more people than may read what the server tells the node.
    return ProbeAttempt(ProbeState.FAILURE, f"HTTP probe failed with statuscode: {answer.status}")


def redirect_target(first: str, url: str, answer: HttpProbeResponse) -> str | None:
    """Where an answer leads, if that is to be followed: only to the host that was asked first."""
    if answer.status not in _REDIRECTS or not answer.location:
        return None
    try:
        target = urljoin(url, answer.location)
        parts = urlsplit(target)
        hostname = parts.hostname
    except ValueError:
        raise HttpProbeError("failed to parse the Location header") from None
    if hostname != urlsplit(first).hostname:
        return None
    if parts.scheme not in {"http", "https"}:
        raise HttpProbeError(f'unsupported protocol scheme "{parts.scheme}"')
    return target


BODY_BYTES = 10 * 1024
"""Of an answer's body no more is read."""
_HEADER_BYTES = 2**20
_NO_HEADERS = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_NO_BODY = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"


class AiohttpProbeClient:
    """Asks containers; an HttpDoor."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str, headers: Headers, *, deadline: float) -> HttpProbeResponse:
        response = await self._response(url, headers, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                body = await _beginning(response.content)
        except TimeoutError as error:
            raise ProbeError(_NO_BODY, ProbeState.FAILURE) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ProbeError("unexpected EOF", ProbeState.FAILURE) from error
        finally:
            response.close()
        return HttpProbeResponse(response.status, response.headers.get("Location"), body)

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _response(self, url: str, headers: Headers, deadline: float) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._opened().get(_url(url), headers=CIMultiDict(headers), allow_redirects=False)
        except TimeoutError as error:
            raise HttpProbeError(_NO_HEADERS) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise HttpProbeError(request_failure(error)) from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=False, force_close=True, limit=0, use_dns_cache=False),
                cookie_jar=aiohttp.DummyCookieJar(),
                # Whoever asks sets the limit.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                skip_auto_headers={"Accept", "Accept-Encoding", "User-Agent"},
                auto_decompress=False,
                max_line_size=_HEADER_BYTES,
                max_field_size=_HEADER_BYTES,
            )
        return self._session


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    body = b""
    while len(body) < BODY_BYTES and (chunk := await content.read(BODY_BYTES - len(body))):
        body += chunk
    return body


def _url(text: str) -> URL:
    """The URL as it is written: only what may not stand in one is escaped, and no `..` is resolved."""
    escaped = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text)
    return URL(quote(escaped, safe="%/:=&?~#+!$,;'@()*[]"), encoded=True)


MAX_REQUESTS = 10


class HttpProbeClient(Protocol):
    """Asks a server."""

    async def get(self, url: str, headers: Headers, *, deadline: float) -> HttpProbeResponse:
        """The answer to one GET, by this time of the loop. NoAnswer if none begins, ProbeError if one breaks off."""

    async def close(self) -> None:
        """Let go of what is held for the next request."""


async def probe_http(door: HttpProbeClient, request: HttpGetRequest, timeout_seconds: float) -> ProbeAttempt:
    """What the server says within the time, redirects included; ProbeError if its answer breaks off."""
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    try:
        return judge(await _last_answer(door, request, deadline))
    except HttpProbeError as failure:
        return ProbeAttempt(ProbeState.FAILURE, f'Get "{request.url}": {failure}')


async def _last_answer(door: HttpProbeClient, request: HttpGetRequest, deadline: float) -> HttpProbeResponse:
    url, headers = request.url, request.headers
    for _ in range(MAX_REQUESTS):
        answer = await door.get(url, headers, deadline=deadline)
        target = redirect_target(request.url, url, answer)
        if target is None:
            return answer
        if urlsplit(answer.location or "").netloc:
            # A Host header of the probe's own goes with the address that was asked, not with one the server names.
            headers = tuple((name, value) for name, value in headers if name.lower() != "host")
        headers = redirected_headers(headers, url=url, target=target)
        url = target
    raise HttpProbeError(f"stopped after {MAX_REQUESTS} redirects")
