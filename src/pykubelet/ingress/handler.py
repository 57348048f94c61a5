"""Answers the requests of the ingress ports: redirects them to TLS, or proxies them to endpoints.

If an endpoint cannot be connected to, the next one is tried: it has seen nothing of the request. After that an error goes to
the client, because a request that a backend may have seen must not be sent twice.
"""

import re
from collections.abc import Callable
from functools import partial

from aiohttp import web

from pykubelet.aio.log import get_logger
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import HandlerResult, Handover, HttpResponse, text_response
from pykubelet.httpserver.reverse_proxy import (
    BrokenRequest,
    CannotConnect,
    NoResponse,
    ProxyClient,
    ProxyError,
    ReverseProxy,
)
from pykubelet.ingress.backends import Endpoints, ServiceBackends
from pykubelet.ingress.routes import Routes

log = get_logger(__name__)

HTTPS_PORT = 443
_MOST_ENDPOINTS = 3
"""How many endpoints are tried if they refuse connections."""
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_NOT_FOUND = text_response(404, "404 Not Found: no Ingress routes this host and path\n")
_NO_ENDPOINTS = text_response(503, "503 Service Unavailable: the Service has no ready endpoints\n")
_ERRORS: dict[type[ProxyError], HttpResponse] = {
    BrokenRequest: text_response(408, "408 Request Timeout\n"),
    NoResponse: text_response(504, "504 Gateway Timeout\n"),
}
_BAD_GATEWAY = text_response(502, "502 Bad Gateway\n")


class IngressHandler:
    """Answers requests; `https_port` returns the port of the listener with TLS, 0 while there is none."""

    def __init__(
        self, *, routes: Routes, backends: ServiceBackends, proxy: ReverseProxy, https_port: Callable[[], int]
    ) -> None:
        self._routes, self._backends, self._proxy, self._https_port = routes, backends, proxy, https_port

    async def answer(self, scheme: str, port: int, request: HttpRequest) -> HandlerResult:
        """The response to a request that came to the listener of this scheme and port."""
        host = request_host(request)
        # After CONNECT, client and server exchange bytes that no proxy reads.
        if host is None or not request.target.startswith("/") or request.method == "CONNECT":
            return Handover(_refuse)
        route = self._routes.find(host, request.target.partition("?")[0].partition("#")[0])
        if route is None:
            return _NOT_FOUND
        # From here on the connection is kept before those that have not sent a request with a route.
        request.authenticated()
        https_port = self._https_port()
        if route.redirects and scheme == "http" and https_port:
            return _redirect(request, https_port)
        found = self._backends.resolve(route.backend).next(_MOST_ENDPOINTS)
        if not found:
            return _NO_ENDPOINTS
        client = ProxyClient(_plain(request.source), scheme, request.headers.get("Host", host), port)
        return Handover(partial(self._forward, found, client, route.ingress))

    async def _forward(
        self, endpoints: Endpoints, client: ProxyClient, ingress: str, request: web.BaseRequest
    ) -> web.StreamResponse | HttpResponse:
        facts = {"ingress": ingress, "method": request.method, "host": client.host, "target": request.raw_path[:200]}
        problem: ProxyError | None = None
        for endpoint in endpoints:
            try:
                response = await self._proxy.forward(request, endpoint, client)
            except CannotConnect as error:
                log.debug("endpoint not reached", endpoint=endpoint[0], port=endpoint[1], cause=str(error), **facts)
                problem = error
            except ProxyError as error:
                problem = error
                break
            else:
                log.debug("request", endpoint=endpoint[0], code=response.status, client=client.address, **facts)
                return response
        reply = _ERRORS.get(type(problem), _BAD_GATEWAY) if problem is not None else _BAD_GATEWAY
        log.debug("request failed", code=reply.code, client=client.address, cause=str(problem), **facts)
        return reply


async def _refuse(_request: web.BaseRequest) -> web.StreamResponse:
    """Answers a request that is not to be trusted; what follows it on the connection is not read."""
    response = web.Response(status=400, text="400 Bad Request\n", headers={"Server": "pykubelet"})
    response.force_close()
    return response


def request_host(request: HttpRequest) -> str | None:
    """The host of a request, in lower case and without its port; None if the head is not to be trusted.

    Two servers that read such a head differently could be made to see different requests.
    """
    headers = request.headers
    hosts = headers.getall("Host", ())
    codings = headers.getall("Transfer-Encoding", ())
    if len(hosts) != 1 or len(headers.getall("Content-Length", ())) > 1:
        return None
    if codings and ("Content-Length" in headers or [one.strip().lower() for one in codings] != ["chunked"]):
        return None
    found = _HOST.fullmatch(hosts[0])
    return found[1].lower().rstrip(".") if found else None


def _redirect(request: HttpRequest, port: int) -> HttpResponse:
    found = _HOST.fullmatch(request.headers["Host"])
    assert found is not None
    suffix = "" if port == HTTPS_PORT else f":{port}"
    location = f"https://{found[1]}{suffix}{request.target}"
    return text_response(308, "308 Permanent Redirect\n", (("Location", location),))


def _plain(address: str) -> str:
    """An address without the form that IPv4 clients have at an IPv6 listener, and without a zone."""
    return address.removeprefix("::ffff:").partition("%")[0]
