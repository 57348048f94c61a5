"""HttpsClient: posts JSON to webhooks over verified TLS, with bounded responses and Go's error texts.

Upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/client.go
"""

import ssl
from dataclasses import dataclass
from functools import lru_cache

import aiohttp
from yarl import URL

from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.http_failure import HttpFailure, request_failure

MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""Enough for a patch in base64 that replaces the largest object."""
_CHUNK_BYTES = 64 * 1024
_EXPIRED = frozenset({"certificate has expired", "certificate is not yet valid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpsPost:
    """A request: what to send where, and whom to expect there."""

    url: str
    """As errors show it, too; with the name that the server's certificate is for."""
    body: bytes
    authorities: str = ""
    """Certificates of the authorities to trust, as PEM; empty for those of the machine."""
    address: tuple[str, int] | None = None
    """Where to connect instead of to the host of the URL."""


@dataclass(frozen=True, slots=True)
class HttpsResponse:
    """A response of any code."""

    code: int
    body: bytes


class BadAuthorities(Exception):
    """The authorities of a request are not certificates."""

    def __init__(self) -> None:
        super().__init__("unable to load root certificates: unable to parse bytes as PEM block")


class _TooLongError(Exception):
    """The response exceeds the limit."""


class HttpsClient:
    """Sends requests; every one has a connection of its own, so that each goes to the address resolved for it."""

    def __init__(self, dialer: Dialer | None = None) -> None:
        self._dialer = dialer or Dialer()

    async def post(self, request: HttpsPost) -> HttpsResponse:
        """Posts a JSON document; HttpFailure if there is no response, BadAuthorities if its authorities are none."""
        url = URL(request.url)
        try:
            context = _context(request.authorities)
        except (ssl.SSLError, ValueError) as error:
            raise BadAuthorities from error
        try:
            name = url.host or ""
            host, port = request.address or (name, url.port or 443)
            connector = aiohttp.TCPConnector(ssl=context, force_close=True, socket_factory=self._dialer.socket_factory)
            async with (
                self._dialer.prepared(host),
                aiohttp.ClientSession(
                    connector=connector,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                ) as session,
                session.post(
                    url.with_host(host).with_port(port),
                    data=request.body,
                    headers={
                        "Host": url.authority,
                        "Content-Type": "application/json",
                        "Accept": "application/json, */*",
                    },
                    server_hostname=name,
                    allow_redirects=False,
                ) as response,
            ):
                return HttpsResponse(response.status, await _body(response))
        except (aiohttp.ClientError, OSError, ValueError, _TooLongError) as error:
            raise HttpFailure(f'Post "{request.url}": {_failure(error, url.host or "")}') from error


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_RESPONSE_BYTES:
            raise _TooLongError
    return bytes(body)


@lru_cache(maxsize=128)
def _context(authorities: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authorities or None)


def _failure(error: Exception, name: str) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {_certificate_problem(error.certificate_error, name)}"
    if isinstance(error, _TooLongError):
        return f"http: response body too large: it has more than {MAX_RESPONSE_BYTES} bytes"
    return request_failure(error)


def _certificate_problem(error: Exception, name: str) -> str:
    message = getattr(error, "verify_message", "")
    if message in _EXPIRED:
        return "certificate has expired or is not yet valid"
    if "mismatch" in message:
        return f"certificate is not valid for any names, but wanted to match {name}"
    return "certificate signed by unknown authority"
