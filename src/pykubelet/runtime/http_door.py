"""The door of hooks to HTTP: one GET at a time to a container.

Certificates are not checked (a container has one of its own making), no proxy is asked, no connection is kept, redirects
are followed within the host only.

Upstream: insecureContainerLifecycleHTTPClient in pkg/kubelet/kubelet.go, RedirectChecker in pkg/probe/http/http.go
"""

import ssl
from typing import Protocol

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pykubelet.runtime.go_words import dial_failure, errno_text
from pykubelet.runtime.http_get import HttpRequest, redirected_headers

_MAX_REQUESTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# What OpenSSL says when the other side does not speak TLS.
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})


class HttpFailure(Exception):
    """There was no answer; says why without quoting headers. `is_plain_http`: asked for TLS, met something else."""

    def __init__(self, message: str, *, is_plain_http: bool = False) -> None:
        super().__init__(message)
        self.is_plain_http = is_plain_http


class HttpDoor(Protocol):
    """Asks a server."""

    async def get(self, request: HttpRequest) -> int:
        """The status of the answer, whatever it is; HttpFailure if there is none."""


class InsecureHttp:
    """Asks containers; an HttpDoor."""

    async def get(self, request: HttpRequest) -> int:
        try:
            # A session for each: hooks are rare, and an idle connection to a container that ends is worth nothing.
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=False, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                skip_auto_headers={"Accept", "User-Agent"},
            ) as session:
                return await _status(session, request)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            told = f'Get "{request.url}": {request_failure(error)}'
            raise HttpFailure(told, is_plain_http=_is_plain_http(error)) from error


async def _status(session: aiohttp.ClientSession, request: HttpRequest) -> int:
    url, headers = URL(request.url), request.headers
    for _ in range(_MAX_REQUESTS):
        async with session.get(url, headers=CIMultiDict(headers), allow_redirects=False) as response:
            location = response.headers.get("Location")
            target = url.join(URL(location)) if response.status in _REDIRECTS and location else None
            if target is None or target.host != url.host or target.scheme not in {"http", "https"}:
                return response.status
            headers = redirected_headers(headers, url=str(url), target=str(target))
            url = target
    raise HttpFailure(f'Get "{url}": stopped after {_MAX_REQUESTS} redirects')


def request_failure(error: Exception) -> str:
    """Why a request got no answer, in the words of Go's client. Nothing of its headers is quoted: they may hold secrets."""
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, ssl.SSLError):
            not_tls = _is_plain_http(error)
            return "http: server gave HTTP response to HTTPS client" if not_tls else f"tls: {cause.reason}"
        return dial_failure(error.host, error.port or 0, cause)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientResponseError):
        return "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
    if isinstance(error, OSError):
        return f"read: {errno_text(error)}"
    return "net/http: invalid request" if isinstance(error, ValueError) else type(error).__name__


def _is_plain_http(error: Exception) -> bool:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, ssl.SSLError) and cause.reason in _NOT_TLS
