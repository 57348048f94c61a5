"""A port of the ingress controller. A port that is taken is tried again until it is free."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import NamedTuple

from pykubelet.aio.log import get_logger
from pykubelet.httpserver.connections import ConnectionLimits
from pykubelet.httpserver.listener import listen, with_port
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import HandlerResult, text_response
from pykubelet.httpserver.server import HttpServer, ServerLimits

log = get_logger(__name__)

RETRY_SECONDS = 5.0
LIMITS = ServerLimits(
    line_bytes=16 * 1024,
    field_bytes=32 * 1024,
    headers=128,
    idle_seconds=75.0,
    stop_seconds=5.0,
    stalled_seconds=60.0,
    # Clients of apps: browsers open six connections each, and WebSockets stay.
    connections=ConnectionLimits(total=8192, unauthenticated=512, waiting=2048, head_bytes=64 * 1024),
)
_REASONS = {
    errno.EADDRINUSE: "the port is taken",
    errno.EACCES: "this user may not listen on it",
    errno.EADDRNOTAVAIL: "the machine does not have this address",
}


class Port(NamedTuple):
    """Where to listen; a port of 0 takes any free one."""

    bind: str
    number: int
    scheme: str
    """http or https."""

    @property
    def option(self) -> str:
        """The option of `up` that chooses the port."""
        return f"--ingress-{self.scheme}-port"


class IngressListener:
    """Serves one port while it runs. `changed` is called when it begins to listen, or fails to for another reason."""

    def __init__(
        self,
        port: Port,
        *,
        answer: Callable[[str, int, HttpRequest], Awaitable[HandlerResult]],
        changed: Callable[[], None],
    ) -> None:
        self._port, self._answer, self._changed = port, answer, changed
        self.number = 0
        """The port; 0 while it does not listen."""
        self.problem = ""
        """Why it does not listen, and what to do; empty if it does."""

    async def run(self, tls: ssl.SSLContext | None) -> None:
        """Listen until cancelled; while the port is taken, try again every few seconds."""
        while True:
            try:
                listener = listen(self._port.bind, self._port.number)
            except OSError as error:
                self._failed(error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            with closing(listener):
                await self._serve(listener, tls)

    async def _serve(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        number: int = listener.getsockname()[1]
        server = HttpServer(self._request, limits=LIMITS, malformed=text_response(400, "400 Bad Request\n"))
        try:
            async with server.serving(listener, tls):
                self.number, self.problem = number, ""
                log.info("ingress listens", address=with_port(self._port.bind, number), scheme=self._port.scheme)
                self._changed()
                await asyncio.get_running_loop().create_future()
        finally:
            self.number = 0

    async def _request(self, request: HttpRequest) -> HandlerResult:
        return await self._answer(self._port.scheme, self.number, request)

    def _failed(self, error: OSError) -> None:
        address = with_port(self._port.bind, self._port.number)
        why = _REASONS.get(error.errno or 0, error.strerror or str(error))
        problem = (
            f"{self._port.scheme} is not served on {address}: {why}. Free the port, or choose another one with "
            f"{self._port.option}; it is tried again every {RETRY_SECONDS:g} s"
        )
        if problem != self.problem:
            self.problem = problem
            log.warning("ingress does not listen", address=address, reason=why, option=self._port.option)
            self._changed()
