"""A small HTTP client for lifecycle hooks, and the request of an `httpGet` hook or probe.

Certificates are not verified because containers have self-signed ones. There is no proxy and no connection reuse, and
redirects are followed within the host only. Errors have the wording of Go's client, which users know from events.

Upstream: pkg/probe/http/request.go, pkg/probe/http/http.go, pkg/probe/util.go, pkg/kubelet/kubelet.go
"""

import re
from dataclasses import dataclass, replace
from typing import Protocol

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pykubelet.api.field_errors import go_quote
from pykubelet.api.generated.core import HTTPGetAction
from pykubelet.api.pods import AnyContainer
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.http_failure import HttpFailure, host_port, is_plain_http, request_failure

# The version in the User-Agent header.
KUBERNETES_VERSION = "1.34"

Headers = tuple[tuple[str, str], ...]
_MAX_REQUESTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECRET = frozenset({"authorization", "cookie"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpGetRequest:
    """A GET request: the parts of its URL and its headers, which may repeat names."""

    scheme: str
    host: str
    port: int
    path: str
    headers: Headers

    @property
    def host_port(self) -> str:
        """Host and port as in a URL."""
        return host_port(self.host, self.port)

    @property
    def url(self) -> str:
        slash = "" if self.path.startswith(("/", "?", "#")) or not self.path else "/"
        return f"{self.scheme}://{self.host_port}{slash}{self.path}"


def http_get_request(action: HTTPGetAction, container: AnyContainer, *, pod_ip: str, purpose: str) -> HttpGetRequest:
    """The request of an httpGet action; `purpose` goes into the User-Agent. ValueError for an invalid port."""
    return HttpGetRequest(
        scheme=action.scheme.lower() or "http",
        host=action.host or pod_ip,
        port=container_port(action.port, container),
        path=action.path,
        headers=_headers(tuple((header.name, header.value) for header in action.http_headers), purpose),
    )


def as_plain_http(request: HttpGetRequest) -> HttpGetRequest:
    """The request without TLS, and without headers that contain secrets."""
    return replace(request, scheme="http", headers=_without_secrets(request.headers))


def redirected_headers(headers: Headers, *, url: str, target: str) -> Headers:
    """The headers for a redirect; secrets are not sent from an encrypted to a plain connection."""
    is_downgraded = url.startswith("https:") and not target.startswith("https:")
    return _without_secrets(headers) if is_downgraded else headers


def _without_secrets(headers: Headers) -> Headers:
    return tuple((name, value) for name, value in headers if name.lower() not in _SECRET)


def container_port(port: int | str | None, container: AnyContainer) -> int:
    """The number of a port given by number or by name; ValueError if it is invalid."""
    number = port
    if isinstance(port, str):
        named = next((known.container_port for known in container.ports if known.name == port), None)
        number = named if named is not None else _number(port)
    if number is None:
        raise ValueError("the port is missing")
    if not 0 < int(number) < 65536:
        raise ValueError(f"invalid port number: {number}")
    return int(number)


def _number(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax")
    return int(text)


def _headers(given: Headers, purpose: str) -> Headers:
    names = {name.lower() for name, _ in given}
    headers = list(given)
    if "user-agent" not in names:
        headers.append(("User-Agent", f"kube-{purpose}/{KUBERNETES_VERSION}"))
    if "accept" not in names:
        headers.append(("Accept", "*/*"))
    elif not next(value for name, value in given if name.lower() == "accept"):
        # An empty Accept header means that none is sent.
        headers = [(name, value) for name, value in headers if name.lower() != "accept"]
    return tuple(headers)


class HttpGetter(Protocol):
    """Sends GET requests: InsecureHttpClient, or the simulated runtime's."""

    async def get(self, request: HttpGetRequest) -> int:
        """The status code of the response; raises HttpFailure if there is none."""


class InsecureHttpClient:
    """Sends requests to containers without verifying certificates."""

    def __init__(self, dialer: Dialer | None = None) -> None:
        self._dialer = dialer or Dialer()

    async def get(self, request: HttpGetRequest) -> int:
        try:
            # A new session for each request: hooks are rare, and an idle connection to a container is useless.
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=False, force_close=True, socket_factory=self._dialer.socket_factory),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                skip_auto_headers={"Accept", "User-Agent"},
            ) as session:
                return await _status(session, request, self._dialer)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            message = f'Get "{request.url}": {request_failure(error)}'
            raise HttpFailure(message, is_plain_http=is_plain_http(error)) from error


async def _status(session: aiohttp.ClientSession, request: HttpGetRequest, dialer: Dialer) -> int:
    url, headers = URL(request.url), request.headers
    for _ in range(_MAX_REQUESTS):
        async with (
            dialer.prepared(url.host or ""),
            session.get(url, headers=CIMultiDict(headers), allow_redirects=False) as response,
        ):
            location = response.headers.get("Location")
            target = url.join(URL(location)) if response.status in _REDIRECTS and location else None
            if target is None or target.host != url.host or target.scheme not in {"http", "https"}:
                return response.status
            headers = redirected_headers(headers, url=str(url), target=str(target))
            url = target
    raise HttpFailure(f'Get "{url}": stopped after {_MAX_REQUESTS} redirects')
