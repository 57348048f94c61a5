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

from pykubelet.runtime.http_get import HttpRequest

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
            raise HttpFailure(_reason(error), is_plain_http=_is_plain_http(error)) from error


async def _status(session: aiohttp.ClientSession, request: HttpRequest) -> int:
    url = URL(request.url)
    for _ in range(_MAX_REQUESTS):
        async with session.get(url, headers=CIMultiDict(request.headers), allow_redirects=False) as response:
            location = response.headers.get("Location")
            target = url.join(URL(location)) if response.status in _REDIRECTS and location else None
            if target is None or target.host != url.host or target.scheme not in {"http", "https"}:
                return response.status
            url = target
    raise HttpFailure(f"stopped after {_MAX_REQUESTS} redirects")


def _is_plain_http(error: Exception) -> bool:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, ssl.SSLError) and cause.reason in _NOT_TLS


def _reason(error: Exception) -> str:
    """What went wrong, in words that hold no part of the headers."""
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        return f"cannot connect to {error.host}:{error.port}: {cause.strerror or type(cause).__name__}"
    return type(error).__name__
