"""Runs the DNS server at the machine's own address, which pods can reach, and moves with it."""

import asyncio
from collections.abc import Callable
from functools import partial

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.dns.server import DnsServer, bind_sockets
from pykubelet.httpserver.listener import LOOPBACK
from pykubelet.podnetwork.pod_side import PodSidePlace

log = get_logger(__name__)

# As often as the API server's listener for pods; the check costs microseconds.
_CHECK_SECONDS = 10.0


class DnsListener:
    """Binds the sockets of a DNS server."""

    def __init__(self, *, server: DnsServer, place: PodSidePlace, moved: Callable[[str, int], None], port: int) -> None:
        """`place` finds the address for pods, `moved` gets the bound one and its port; `port` is the preferred one."""
        self._server, self._place, self._moved, self._port = server, place, moved, port

    async def run(self, ready: asyncio.Event) -> None:
        """Serve until cancelled; ready once questions are answered."""
        while True:
            # Without a network the server waits for one where nothing else reaches it.
            found = self._place.current()
            address = found[0] or LOOPBACK
            sockets, listens = await bind_sockets(address, self._port, self._place), asyncio.Event()
            port = sockets.port
            async with running({"dns server": with_ready_event(partial(self._server.run, sockets), listens)}):
                await listens.wait()
                log.info("cluster DNS listens", address=address, port=port)
                self._moved(address, port)
                ready.set()
                while self._place.current() in (("", found[1]), (address, found[1])):  # noqa: ASYNC110  the kernel is asked
                    await asyncio.sleep(_CHECK_SECONDS)
