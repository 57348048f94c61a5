"""Runs the DNS server at the machine's own address, which pods can reach, and moves with it."""

import asyncio
from collections.abc import Callable
from functools import partial

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.dns.server import DnsServer, bind_sockets
from pykubelet.httpserver.listener import LOOPBACK

log = get_logger(__name__)

# As often as the API server's listener for pods; the check costs microseconds.
_CHECK_SECONDS = 10.0


class DnsListener:
    """Binds the sockets of a DNS server."""

    def __init__(
        self, *, server: DnsServer, address: Callable[[], str], moved: Callable[[str, int], None], port: int
    ) -> None:
        """`address` finds the machine's address, `moved` gets the bound one and its port; `port` is the preferred one."""
        self._server, self._address, self._moved, self._port = server, address, moved, port

    async def run(self, ready: asyncio.Event) -> None:
        """Serve until cancelled; ready once questions are answered."""
        while True:
            # Without a network the server waits for one where nothing else reaches it.
            address = self._address() or LOOPBACK
            sockets, listens = bind_sockets(address, self._port), asyncio.Event()
            port = sockets.port
            async with running({"dns server": with_ready_event(partial(self._server.run, sockets), listens)}):
                await listens.wait()
                log.info("cluster DNS listens", address=address, port=port)
                self._moved(address, port)
                ready.set()
                while self._address() in ("", address):  # noqa: ASYNC110  the kernel is asked
                    await asyncio.sleep(_CHECK_SECONDS)
