"""A proxy between a client and an API server that records every request.

TLS ends here, so the proxy uses the client's certificate and key: the server sees the same user.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

import aiohttp
from aiohttp import web

_OWN_HEADERS = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding")


@dataclass(frozen=True, slots=True)
class Seen:
    """One request, and how it was answered."""

    method: str
    path: str
    query: dict[str, list[str]]
    content_type: str
    body: bytes
    code: int
    answer: str = ""


class RecordingProxy:
    """Forwards requests to a server and records them."""

    def __init__(self, server: str, tls: ssl.SSLContext) -> None:
        self._server, self._tls = server, tls
        self.seen: list[Seen] = []
        self.url = ""

    @asynccontextmanager
    async def serving(self, certificate: Path, key: Path) -> AsyncIterator["RecordingProxy"]:
        """Serves with this certificate, for as long as the context lasts."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        async with aiohttp.ClientSession(self._server, connector=connector) as self._session:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            self.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
            try:
                yield self
            finally:
                await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.request(
            request.method, request.raw_path, data=body or None, headers=headers, timeout=timeout
        ) as answer:
            refusal = "" if answer.status < 400 else await answer.text()
            self._write_down(request, body, answer.status, refusal)
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            try:
                await response.write(refusal.encode())
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            except (aiohttp.ClientError, ConnectionError, asyncio.CancelledError):
                # The client or the server has closed its connection, as at the end of a test.
                return response
            return response

    def _write_down(self, request: web.Request, body: bytes, code: int, answer: str) -> None:
        query = parse_qs(request.query_string, keep_blank_values=True)
        self.seen.append(Seen(request.method, request.path, query, request.content_type, body, code, answer))
