"""Reads the usage of every node while clients ask for it, and costs nothing otherwise.

The first request after a pause waits for two readings, about a second apart. From then on usage is read every 15 s,
until there was no request for a minute; an autoscaler asks every 15 s. All nodes are read at once, each with its own time
limit, so that a node that does not answer delays no other. metrics-server's pkg/scraper reads all the time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError
from pykubelet.api.serializer import Document
from pykubelet.apiserver.metricsserver.usage import INTERVAL_SECONDS, NodeUsage, read_usage

log = get_logger(__name__)

Fetch = Callable[[Document], Awaitable[bytes]]
"""Fetches the page /metrics/resource of a node; raises ApiError."""
# Short, because the first request waits for it, and long enough for clock ticks of 10 ms not to matter.
FIRST_WINDOW_SECONDS = 1.0
# The first request waits for all nodes, later ones do not: then metrics-server's limit is right.
_FIRST_SECONDS, _NODE_SECONDS = 2.0, 10.0
KEPT_SECONDS = 60.0
"""How long usage is read after the last request: four periods of an autoscaler."""
# Nodes read at once: TLS handshakes of more would hold up other requests.
_AT_ONCE = 32


class UsageScraper:
    """The usage of each node by its name. `nodes` returns the Node objects."""

    def __init__(self, nodes: Callable[[], Iterable[Document]], fetch: Fetch) -> None:
        self._nodes, self._fetch = nodes, fetch
        self._usage: dict[str, NodeUsage] = {}
        self._failed: frozenset[str] = frozenset()
        self._asked, self._has_read = asyncio.Event(), asyncio.Event()
        self._asked_at = 0.0

    async def usage(self) -> Mapping[str, NodeUsage]:
        """The usage of each node that could be read; waits for the first window after a pause."""
        self._asked_at = asyncio.get_running_loop().time()
        self._asked.set()
        await self._has_read.wait()
        return self._usage

    async def run(self) -> None:
        """Reads while there are requests, until cancelled."""
        while True:
            await self._asked.wait()
            await self._read_while_asked()
            self._asked.clear()
            self._has_read.clear()
            self._usage = {}

    async def _read_while_asked(self) -> None:
        loop = asyncio.get_running_loop()
        await self._read_all(_FIRST_SECONDS)
        await asyncio.sleep(FIRST_WINDOW_SECONDS)
        started = loop.time()
        await self._read_all(_FIRST_SECONDS)
        self._has_read.set()
        while loop.time() - self._asked_at < KEPT_SECONDS:
            await asyncio.sleep(started + INTERVAL_SECONDS - loop.time())
            started = loop.time()
            await self._read_all(_NODE_SECONDS)

    async def _read_all(self, seconds: float) -> None:
        nodes = {str(node["metadata"]["name"]): node for node in self._nodes()}
        slots = asyncio.Semaphore(_AT_ONCE)
        problems = await asyncio.gather(*(self._read(name, node, slots, seconds) for name, node in nodes.items()))
        failed = {name: problem for name, problem in zip(nodes, problems, strict=True) if problem}
        for name in failed.keys() - self._failed:
            log.warning("usage of a node not read", node=name, cause=failed[name])
        self._failed = frozenset(failed)
        for gone in self._usage.keys() - nodes.keys():
            del self._usage[gone]

    async def _read(self, name: str, node: Document, slots: asyncio.Semaphore, seconds: float) -> str:
        """Reads one node; returns what went wrong, if anything. The usage of a node that cannot be read is unknown."""
        try:
            async with slots, asyncio.timeout(seconds):
                page = await self._fetch(node)
        except (ApiError, TimeoutError) as error:
            self._usage.pop(name, None)
            return str(error) or f"no answer within {seconds:g} s"
        # The page of a full node has some thousand lines.
        self._usage[name] = await asyncio.to_thread(read_usage, page, self._usage.get(name, NodeUsage()))
        return ""
