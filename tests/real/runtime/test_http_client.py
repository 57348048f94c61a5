"""The HTTP client of hooks over real sockets: redirects, headers, any certificate, fallback to plain HTTP."""

import ssl
from collections.abc import AsyncIterator

import pytest
import trustme
from aiohttp import web

from pykubelet.api.generated.core import HTTPGetAction, HTTPHeader, LifecycleHandler
from pykubelet.httpserver.http_client import HttpGetRequest, InsecureHttpClient
from pykubelet.httpserver.http_failure import HttpFailure
from pykubelet.kubelet.lifecycle.handlers import HandlerRunner
from pykubelet.runtimes.sim.runtime import SimRuntime
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import VirtualClock
from runtime_rig import SeenEvents


class Server:
    """Records requests; some paths redirect."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.port = 0

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        match request.path:
            case "/moved":
                return web.Response(status=302, headers={"Location": "/fine"})
            case "/away":
                return web.Response(status=302, headers={"Location": "http://example.invalid/"})
            case "/circle":
                return web.Response(status=302, headers={"Location": "/circle"})
            case "/broken":
                return web.Response(status=500)
            case _:
                return web.Response(text="fine")


async def serve(server: Server, tls: ssl.SSLContext | None) -> web.AppRunner:
    app = web.Application()
    app.router.add_get("/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server.port = runner.addresses[0][1]
    return runner


@pytest.fixture
async def plain() -> AsyncIterator[Server]:
    server = Server()
    runner = await serve(server, None)
    yield server
    await runner.cleanup()


@pytest.fixture
async def encrypted() -> AsyncIterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("nobody.example").configure_cert(context)
    server = Server()
    runner = await serve(server, context)
    yield server
    await runner.cleanup()


def request(server: Server, path: str = "/fine", scheme: str = "http", **headers: str) -> HttpGetRequest:
    return HttpGetRequest(scheme=scheme, host="127.0.0.1", port=server.port, path=path, headers=tuple(headers.items()))


@pytest.mark.parametrize(
    ("path", "status", "count"), [("/fine?a=b", 200, 1), ("/broken", 500, 1), ("/moved", 200, 2), ("/away", 302, 1)]
)
async def test_get_returns_the_status_code(plain: Server, path: str, status: int, count: int) -> None:
    """Redirects are followed on the same host only; a redirect to another host is the result."""
    assert await InsecureHttpClient().get(request(plain, path)) == status
    assert len(plain.requests) == count


async def test_redirects_end_somewhere(plain: Server) -> None:
    """The client stops after ten redirects."""
    with pytest.raises(HttpFailure, match="stopped after 10 redirects"):
        await InsecureHttpClient().get(request(plain, "/circle"))
    assert len(plain.requests) == 10


async def test_headers_are_sent_as_given(plain: Server) -> None:
    """They may set Host; no User-Agent or Accept header is added."""
    await InsecureHttpClient().get(request(plain, Host="web.example", X="1"))
    sent = plain.requests[0].headers
    assert (sent["Host"], sent["X"]) == ("web.example", "1")
    assert "User-Agent" not in sent
    assert "Accept" not in sent


async def test_certificate_is_not_checked(encrypted: Server) -> None:
    """Containers usually have self-signed certificates."""
    assert await InsecureHttpClient().get(request(encrypted, scheme="https")) == 200


async def test_refused_connection_is_a_failure(plain: Server) -> None:
    """The message is that of Go's HTTP client."""
    closed = HttpGetRequest(scheme="http", host="127.0.0.1", port=1, path="/", headers=())
    with pytest.raises(
        HttpFailure, match=r'^Get "http://127\.0\.0\.1:1/": dial tcp 127\.0\.0\.1:1: connect: connection refused$'
    ) as failure:
        await InsecureHttpClient().get(closed)
    assert not failure.value.is_plain_http


async def test_https_hook_on_a_plain_server_falls_back(plain: Server) -> None:
    """It sends one plain request without the Authorization header and emits an event."""

    events = SeenEvents()
    hooks = HandlerRunner(
        commands=None, http=InsecureHttpClient(), runtime=SimRuntime(clock=VirtualClock()), events=events
    )
    headers = (HTTPHeader(name="Authorization", value="secret"),)
    action = HTTPGetAction(scheme="HTTPS", host="127.0.0.1", port=plain.port, path="/hook", http_headers=headers)
    await hooks.run("id", pod(), container(), LifecycleHandler(http_get=action))
    assert [one.path for one in plain.requests] == ["/hook"]
    assert "Authorization" not in plain.requests[0].headers
    assert plain.requests[0].headers["User-Agent"] == "kube-lifecycle/1.34"
    assert events.reasons() == ["LifecycleHTTPFallback"]
