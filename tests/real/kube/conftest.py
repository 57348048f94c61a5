"""Servers and clients on loopback, plain or with TLS and a kubeconfig."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from pykubelet.aio.clock import SystemClock
from pykubelet.api.errors import Unauthorized
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.rest import RestClient, RestClientLimits
from pykubelet.client.transport import RestConfig, UserCredentials
from pykubelet.testing.virtual_time import ManualClock

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def _served(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _client_of(handler: Handler, limits: RestClientLimits | None = None) -> AsyncIterator[RestClient]:
    async with _served(handler) as url:
        access = RestConfig(url, UserCredentials())
        async with RestClient(access, clock=SystemClock(), limits=limits) as client:
            yield client


async def _streamed(request: web.Request, *chunks: bytes, cut: bool = False) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
    if cut:
        # The chunks must leave before the connection breaks.
        await asyncio.sleep(0.05)
        assert request.transport is not None
        request.transport.abort()
    return response


def _watch_line(type: str, version: int, name: str = "web") -> bytes:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return json.dumps({"type": type, "object": {"kind": "Pod", "metadata": metadata}}).encode() + b"\n"


@pytest.fixture
def served() -> Callable[..., AbstractAsyncContextManager[str]]:
    """Serve every request with one handler; yields the URL of the server."""
    return _served


@pytest.fixture
def client_of() -> Callable[..., AbstractAsyncContextManager[RestClient]]:
    """A client whose server is one handler."""
    return _client_of


@pytest.fixture
def streamed() -> Callable[..., Awaitable[web.StreamResponse]]:
    """Respond with chunks; `cut` aborts the connection instead of ending the response."""
    return _streamed


@pytest.fixture
def watch_line() -> Callable[..., bytes]:
    """One watch event as a line of JSON."""
    return _watch_line


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    """The TLS context of a server for which client certificates are optional."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "api.internal").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def _who(request: web.Request) -> web.Response:
    """Respond with a pod named after the client certificate and the Authorization header."""
    assert request.transport is not None
    peer = request.transport.get_extra_info("peercert") or {}
    name = next((value for part in peer.get("subject", ()) for key, value in part if key == "commonName"), "")
    header = request.headers.get("Authorization", "")
    if header == "Bearer old":
        return web.json_response(Unauthorized("who?").to_status(), status=401)
    return web.json_response({"kind": "Pod", "metadata": {"name": f"{name}|{header}"}})


@pytest.fixture
def secure_client(
    authority: trustme.CA, server_tls: ssl.SSLContext, tmp_path: Path
) -> Callable[..., AbstractAsyncContextManager[RestClient]]:
    """A client, configured by a kubeconfig in `tmp_path`, of a TLS server that returns the caller's identity."""
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem.bytes())

    @asynccontextmanager
    async def opened(
        user: dict[str, Any], cluster: dict[str, Any] | None = None, clock: ManualClock | None = None
    ) -> AsyncIterator[RestClient]:
        async with _served(_who, tls=server_tls) as url:
            described = {"certificate-authority": "ca.crt"} if cluster is None else cluster
            config = {
                "clusters": [{"name": "c", "cluster": {"server": url, **described}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
            path = tmp_path / "config"
            path.write_text(json.dumps(config))
            time = clock or ManualClock()
            access = load_kubeconfig([str(path)], environment={"PATH": "/usr/bin:/bin"}, clock=time)
            async with RestClient(access, clock=time) as client:
                yield client

    return opened


@pytest.fixture
def write_pair(authority: trustme.CA, tmp_path: Path) -> Callable[[str], None]:
    """Write a client certificate with this name, and its key, to `tmp_path`."""

    def written(name: str) -> None:
        issued = authority.issue_cert(common_name=name)
        (tmp_path / "client.crt").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        (tmp_path / "client.key").write_bytes(issued.private_key_pem.bytes())

    return written
