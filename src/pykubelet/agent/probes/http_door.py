"""The door of probes to HTTP: one GET, one answer, no redirects.

Certificates are not checked (a container has one of its own making), no proxy is asked, no connection is kept and no
cookie. What goes wrong is told in the words of Go's client, which users of Kubernetes know from events.

Upstream: pkg/probe/http/http.go
"""

import asyncio
import re
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pykubelet.agent.probes.finding import ProbeError, State
from pykubelet.agent.probes.http_answer import HttpAnswer, NoAnswer
from pykubelet.runtime.http_door import request_failure
from pykubelet.runtime.http_get import Headers

BODY_BYTES = 10 * 1024
"""Of an answer's body no more is read."""
_HEADER_BYTES = 2**20
_NO_HEADERS = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_NO_BODY = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"


class ProbeHttp:
    """Asks containers; an HttpDoor."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str, headers: Headers, *, deadline: float) -> HttpAnswer:
        response = await self._response(url, headers, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                body = await _beginning(response.content)
        except TimeoutError as error:
            raise ProbeError(_NO_BODY, State.FAILURE) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ProbeError("unexpected EOF", State.FAILURE) from error
        finally:
            response.close()
        return HttpAnswer(response.status, response.headers.get("Location"), body)

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _response(self, url: str, headers: Headers, deadline: float) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._opened().get(_url(url), headers=CIMultiDict(headers), allow_redirects=False)
        except TimeoutError as error:
            raise NoAnswer(_NO_HEADERS) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoAnswer(request_failure(error)) from error

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
