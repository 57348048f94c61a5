"""The proxier: follows Services and EndpointSlices, and keeps the kernel's tables as they say.

A change is in the kernel some milliseconds after it was seen. Changes that arrive while a transaction runs are written
together in the next one; after each, the proxier pauses for as long as it took, at most a second, which bounds its
share of the CPU in a storm of changes.

The first transaction makes the tables whole and lets connections live; so does one after a failure. Twice a minute the
proxier checks that the tables are still there: reloading the machine's firewall often deletes all tables.

Upstream: pkg/proxy/nftables/proxier.go, cmd/kube-proxy/app/server.go
"""

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Generic, TypeVar

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import Runner, start_supervised
from pykubelet.aio.threads import in_thread
from pykubelet.api.generated.core import Node, Service
from pykubelet.api.generated.discovery import EndpointSlice
from pykubelet.api.scheme import ENDPOINT_SLICES, NODES, SERVICES, ApiObject, TypedKind
from pykubelet.client.interface import Selection
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.proxy.conntrack import delete_flows, read_flows, stale_flows
from pykubelet.proxy.healthcheck.proxy_health import ProxyHealth
from pykubelet.proxy.healthcheck.service_health import ServiceHealthServer
from pykubelet.proxy.nftables.nft import Nft, NftError
from pykubelet.proxy.nftables.services import PortKey, ServiceTables
from pykubelet.proxy.nodeport_addresses import NodePortAddresses
from pykubelet.proxy.serviceport import HEADLESS_LABEL, PROXY_NAME_LABEL

log = get_logger(__name__)

T = TypeVar("T", bound=ApiObject)
ZONE_LABEL = "topology.kubernetes.io/zone"
_SELECTION = Selection(labels=f"!{PROXY_NAME_LABEL},!{HEADLESS_LABEL}")
_RETRY = Backoff(first_seconds=0.1, limit_seconds=30.0)
# At most half of one CPU in a storm, and a change waits no longer than with kube-proxy's minSyncPeriod.
_PAUSE_FACTOR, _MAX_PAUSE_SECONDS = 1.0, 1.0
_CHECK_SECONDS = 30.0
# kube-proxy's: kernels before 6.2 need a moment.
_STALE_SECONDS = 1.0


class _Followed(Generic[T]):
    """Passes the objects of one kind on to the tables, and wakes the proxier."""

    def __init__(self, put: Callable[[T], None], remove: Callable[[T], None], changed: Callable[[], None]) -> None:
        self._put, self._remove, self._changed = put, remove, changed
        self.has_listed = asyncio.Event()

    def added(self, obj: T, /) -> None:
        self._put(obj)
        self._changed()

    def modified(self, obj: T, /) -> None:
        self._put(obj)
        self._changed()

    def deleted(self, obj: T, /) -> None:
        self._remove(obj)
        self._changed()

    def synced(self) -> None:
        self.has_listed.set()


class Proxier:
    """Keeps the rules of the network namespace it runs in. There must be only one: see `ProxyLock`."""

    def __init__(
        self,
        *,
        client: ListerWatcher,
        clock: Clock,
        nft: Nft,
        node_name: str,
        tables: ServiceTables,
        node_ports: NodePortAddresses,
        health: ProxyHealth,
        service_health: ServiceHealthServer,
    ) -> None:
        self._client, self._clock, self._nft, self._node_name = client, clock, nft, node_name
        self._tables, self._node_ports, self._health, self._service_health = tables, node_ports, health, service_health
        self._node: Node | None = None
        self._wake = asyncio.Event()
        self._is_whole = False
        self._cleaned_at = float("-inf")
        self._retries = Retries(_RETRY)
        self.transactions = 0
        """The number of transactions that changed rules."""

    async def run(self, ready: asyncio.Event) -> None:
        """Keep the rules until cancelled; sets `ready` when the kernel has the rules of everything listed."""
        tables = self._tables
        services = _Followed[Service](self._put_service, self._remove_service, self._changed)
        slices = _Followed[EndpointSlice](tables.put_slice, tables.remove_slice, self._changed)
        nodes = _Followed[Node](self._put_node, lambda _node: self._health.put_node(None), self._changed)
        itself = Selection(fields=f"metadata.name={self._node_name}")
        self._put_addresses()

        def reflector(kind: TypedKind[T], sink: _Followed[T], selection: Selection = _SELECTION) -> Runner:
            made = Reflector(client=self._client, kind=kind, sink=sink, clock=self._clock, selection=selection)
            return partial(made.run, asyncio.Event())

        # The node first: what a slice means depends on its zone.
        followed = {
            "node": (reflector(NODES, nodes, itself), nodes.has_listed),
            "services": (reflector(SERVICES, services), services.has_listed),
            "endpointslices": (reflector(ENDPOINT_SLICES, slices), slices.has_listed),
        }
        async with asyncio.TaskGroup() as group:
            start_supervised(group, "proxy's health checks of Services", self._service_health.run)
            for name, (follow, has_listed) in followed.items():
                start_supervised(group, f"proxy's {name}", follow)
                # Rules made of half a list would cut off the rest.
                await has_listed.wait()
            await self._keep(ready)

    def _changed(self) -> None:
        self._health.queued()
        self._wake.set()

    def _put_service(self, service: Service) -> None:
        self._tables.put_service(service)
        self._service_health.put_service(service)

    def _remove_service(self, service: Service) -> None:
        self._tables.remove_service(service)
        self._service_health.remove_service(service)

    def _put_node(self, node: Node) -> None:
        self._node = node
        self._health.put_node(node)
        self._put_addresses()

    def _put_addresses(self) -> bool:
        """Have node ports and health checks on the chosen addresses; whether there are others than before."""
        node = self._node
        named = [one.address for one in node.status.addresses if one.type == "InternalIP"] if node is not None else []
        chosen = tuple(self._node_ports.choose(named))
        self._service_health.put_addresses(tuple(one for one in chosen if one))
        return self._tables.put_node(chosen, zone=node.metadata.labels.get(ZONE_LABEL, "") if node is not None else "")

    async def _keep(self, ready: asyncio.Event) -> None:
        while True:
            self._wake.clear()
            started = self._clock.monotonic()
            try:
                await self._sync()
            except NftError as error:
                self._is_whole = False
                delay = self._retries.next_delay_seconds()
                log.error("rules of Services not written", error=error, retry_in_seconds=round(delay, 3))
                await asyncio.sleep(delay)
                continue
            self._retries.reset()
            self._health.updated()
            if self._wake.is_set():
                # Seen while the last transaction ran.
                self._health.queued()
            ready.set()
            took = self._clock.monotonic() - started
            await asyncio.sleep(min(_PAUSE_FACTOR * took, _MAX_PAUSE_SECONDS))
            await self._wait()

    async def _wait(self) -> None:
        """Wait for a change; meanwhile delete stale chains, and notice if our tables were deleted."""
        while not self._wake.is_set():
            has_stale = any(table.has_stale_chains for table in self._tables.tables.values())
            try:
                async with asyncio.timeout(_STALE_SECONDS if has_stale else _CHECK_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                if has_stale:
                    await self._delete_stale_chains()
                elif self._put_addresses():
                    return
                elif not await self._has_tables():
                    log.warning("another program deleted the rules of Services, writing them again")
                    self._is_whole = False
                    return

    async def _sync(self) -> None:
        """Write what changed, or everything if the kernel may have something else. NftError if nothing was written."""
        tables = self._tables
        udp = tables.update_tables()
        if self._is_whole:
            commands = [line for table in tables.tables.values() for line in table.partial()]
            try:
                if commands:
                    await self._nft.run(commands)
                    self.transactions += 1
            except NftError as error:
                log.warning("the kernel has other rules than expected, writing all of them", error=error)
                self._is_whole = False
        if not self._is_whole:
            await self._write_everything()
            self._is_whole = True
            udp = tables.udp_ports()
        await self._delete_stale_chains()
        await self._end_stale_connections(udp)

    async def _write_everything(self) -> None:
        tables = self._tables.tables
        try:
            kernel = {family: await self._nft.table(family) for family in tables}
            await self._nft.run(line for family, table in tables.items() for line in table.full(kernel[family]))
        except NftError as error:
            # As when a set has another type: another version of this program made it.
            log.warning("the rules of Services are not as this program writes them, making them anew", error=error)
            await self._nft.run(line for table in tables.values() for line in table.full(None))

    async def _has_tables(self) -> bool:
        try:
            return await self._nft.families() >= set(self._tables.tables)
        except NftError as error:
            log.warning("rules of Services not checked", error=error)
            return True

    async def _delete_stale_chains(self) -> None:
        now = self._clock.monotonic()
        if now - self._cleaned_at < _STALE_SECONDS:
            return
        self._cleaned_at = now
        commands = [line for table in self._tables.tables.values() for line in table.delete_stale_chains()]
        try:
            if commands:
                await self._nft.run(commands)
        except NftError as error:
            # They are empty; the next time that everything is written they are deleted.
            log.warning("stale chains of Services not deleted", error=error, count=len(commands))

    async def _end_stale_connections(self, udp: Collection[PortKey]) -> None:
        for family in self._tables.tables:
            frontends = self._tables.udp_frontends(key for key in udp if key[0] is family)
            ports = {port for _, port in frontends}
            if not frontends:
                continue
            port = next(iter(ports)) if len(ports) == 1 else None
            try:
                with await self._nft.open_conntrack() as netlink:
                    flows = await in_thread(read_flows, netlink, family, port)
                    stale = stale_flows(flows, frontends)
                    count = await in_thread(delete_flows, netlink, family, stale) if stale else 0
                if stale:
                    log.debug("stale UDP connections ended", family=family, count=count)
            except OSError as error:
                log.warning("stale UDP connections not ended", error=error, family=family)
