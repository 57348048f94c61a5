"""Probes a container with an HTTP GET, following redirects within the host.

Status 200 to 399 is a success; a redirect that is not followed is a success with a warning. Certificates are not verified,
and no proxy, keep-alive connection or cookie is used. Errors have the texts of Go's HTTP client, which users know from
events.

Upstream: pkg/probe/http/http.go
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urljoin, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.http_client import Headers, HttpGetRequest, redirected_headers
from pykubelet.httpserver.http_failure import request_failure
from pykubelet.kubelet.prober.tcp_probe import ProbeAttempt, ProbeError, ProbeState

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

BODY_BYTES = 10 * 1024
"""At most this much of a response body is read."""
_HEADER_BYTES = 2**20
_NO_HEADERS = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_NO_BODY = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
MAX_REQUESTS = 10


@dataclass(frozen=True, slots=True)
class HttpProbeResponse:
    """The response of a server; `body` is its beginning."""

    status: int
    location: str | None
    body: bytes


class HttpProbeError(Exception):
    """The server sent no usable response; the message says why."""


class HttpProbeClient(Protocol):
    """Sends a request; the simulated runtime has its own implementation."""

    async def get(self, url: str, headers: Headers, *, deadline: float) -> HttpProbeResponse:
        """Send one GET before this time of the loop; raises HttpProbeError without a response, ProbeError if it breaks off."""

    async def close(self) -> None:
        """Close the client and its connections."""


async def probe_http(client: HttpProbeClient, request: HttpGetRequest, timeout_seconds: float) -> ProbeAttempt:
    """Request the URL within the timeout, redirects included; raises ProbeError if the response breaks off."""
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    try:
        return probe_result(await _last_answer(client, request, deadline))
    except HttpProbeError as failure:
        return ProbeAttempt(ProbeState.FAILURE, f'Get "{request.url}": {failure}')


async def _last_answer(client: HttpProbeClient, request: HttpGetRequest, deadline: float) -> HttpProbeResponse:
    url, headers = request.url, request.headers
    for _ in range(MAX_REQUESTS):
        answer = await client.get(url, headers, deadline=deadline)
        target = redirect_target(request.url, url, answer)
        if target is None:
            return answer
        if urlsplit(answer.location or "").netloc:
            # The probe's own Host header is for the first host, not for one that the server redirects to.
            headers = tuple((name, value) for name, value in headers if name.lower() != "host")
        headers = redirected_headers(headers, url=url, target=target)
        url = target
    raise HttpProbeError(f"stopped after {MAX_REQUESTS} redirects")


def probe_result(answer: HttpProbeResponse) -> ProbeAttempt:
    text = answer.body.decode(errors="replace")
    if 200 <= answer.status < 300:
        return ProbeAttempt(ProbeState.SUCCESS, text)
    if 300 <= answer.status < 400:
        return ProbeAttempt(ProbeState.WARNING, f"Probe terminated redirects, Response body: {text}")
    # Without the body: more people may read events than responses of the server.
    return ProbeAttempt(ProbeState.FAILURE, f"HTTP probe failed with statuscode: {answer.status}")


def redirect_target(first: str, url: str, answer: HttpProbeResponse) -> str | None:
    """The URL of a redirect that is to be followed: only to the host of the first request."""
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


class AiohttpProbeClient:
    """Sends the requests with aiohttp. Implements HttpProbeClient."""

    def __init__(self, dialer: Dialer | None = None) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._dialer = dialer or Dialer()

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
            target = _url(url)
            async with asyncio.timeout_at(deadline), self._dialer.prepared(target.host or ""):
                return await self._opened().get(target, headers=CIMultiDict(headers), allow_redirects=False)
        except TimeoutError as error:
            raise HttpProbeError(_NO_HEADERS) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise HttpProbeError(request_failure(error)) from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=False,
                    force_close=True,
                    limit=0,
                    use_dns_cache=False,
                    socket_factory=self._dialer.socket_factory,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                # The caller sets the timeout.
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
    """The URL as written: only invalid characters are escaped, and `..` is not resolved."""
    escaped = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text)
    return URL(quote(escaped, safe="%/:=&?~#+!$,;'@()*[]"), encoded=True)
