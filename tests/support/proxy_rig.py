"""The service proxy in a network lab, over an API in memory; Services and EndpointSlices as documents."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from time import perf_counter
from typing import Any

from network_lab import NODE_IP, NODE_IP6, Namespace
from pykubelet.aio.clock import SystemClock
from pykubelet.api import schema
from pykubelet.api.generated.core import Service
from pykubelet.api.generated.discovery import EndpointSlice
from pykubelet.api.serializer import Document, from_document
from pykubelet.proxy.healthcheck.proxy_health import ProxyHealth
from pykubelet.proxy.healthcheck.service_health import ServiceHealthServer
from pykubelet.proxy.nftables.nft import Nft
from pykubelet.proxy.nftables.proxier import Proxier
from pykubelet.proxy.nftables.services import ServiceTables
from pykubelet.proxy.nodeport_addresses import NodePortAddresses
from pykubelet.proxy.serviceport import IPFamily
from pykubelet.testing.memory_api import MemoryApi

NODE = "node-1"
PATIENCE_SECONDS = 40.0
IP = "10.96.0.10"


def service(name: str = "web", ip: str | tuple[str, ...] = IP, port: int = 80, **spec: Any) -> Document:
    """A Service in the namespace `shop`; `spec` may replace its one port."""
    ips = (ip,) if isinstance(ip, str) else ip
    ports = [{"port": port, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"type": "ClusterIP", "clusterIP": ips[0], "clusterIPs": list(ips), "ports": ports, **spec},
    }


def endpoint(address: str, node: str = NODE, **conditions: bool) -> Document:
    """An endpoint on a node; ready unless said otherwise."""
    return {"addresses": [address], "nodeName": node, "conditions": conditions}


def endpoint_slice(*endpoints: str | Document, of: str = "web", name: str = "", **fields: Any) -> Document:
    """A slice of the Service's endpoints, on this node where only an address is given."""
    found = [endpoint(one) if isinstance(one, str) else one for one in endpoints]
    is_ipv6 = bool(found) and ":" in found[0]["addresses"][0]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name or f"{of}-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": of}},
        "addressType": "IPv6" if is_ipv6 else "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": found,
        **fields,
    }


def udp(of: str = "web", node_port: int = 0) -> dict[str, Any]:
    """The `ports` of a Service with one UDP port."""
    return {"ports": [{"port": 53, "protocol": "UDP", **({"nodePort": node_port} if node_port else {})}]}


UDP_SLICE: dict[str, Any] = {"ports": [{"name": "", "port": 5353, "protocol": "UDP"}]}


def as_service(document: Document) -> Service:
    return from_document(document, Service)


def as_slice(document: Document) -> EndpointSlice:
    return from_document(document, EndpointSlice)


def tables(*, families: tuple[IPFamily, ...] = (IPFamily.IPV4,), **options: Any) -> ServiceTables:
    """Empty tables of this node."""
    return ServiceTables(node_name=NODE, families=families, **options)


class ProxyRig:
    """One node's proxy, in a thread with an event loop in the node's namespace."""

    def __init__(self, place: Namespace, *, node_ports: NodePortAddresses | None = None, **options: Any) -> None:
        """`options` are those of the tables."""
        self._place, self._node_ports, self._options = place, node_ports or NodePortAddresses(), options
        self.health = ProxyHealth(SystemClock())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._api: MemoryApi | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._proxier: Proxier | None = None
        self._objects: dict[tuple[str, str], Document] = {}
        self.is_disturbed = False
        """Whether a test deletes its rules."""

    def start(self, *objects: Document) -> "ProxyRig":
        """Start it with these objects besides those of earlier; returns when it is ready."""
        ready: Future[None] = Future()
        for one in objects:
            self._objects[one["kind"], one["metadata"]["name"]] = one
        self._thread = threading.Thread(
            target=lambda: self._place.run_async(lambda: self._main(ready)), name="proxy", daemon=True
        )
        self._thread.start()
        ready.result(PATIENCE_SECONDS)
        return self

    async def _main(self, ready: "Future[None]") -> None:
        try:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            self._api = MemoryApi(SystemClock())
            self._api.put(schema.NODES, _node())
            for one in self._objects.values():
                self._api.put(_resource(one), one)
            made = tables(families=(IPFamily.IPV4, IPFamily.IPV6), **self._options)
            proxier = Proxier(
                client=self._api,
                clock=SystemClock(),
                nft=Nft(),
                node_name=NODE,
                tables=made,
                node_ports=self._node_ports,
                health=self.health,
                service_health=ServiceHealthServer(
                    endpoints=made.local_ready, is_proxy_healthy=lambda: self.health.is_healthy, events=None
                ),
            )
            self._proxier = proxier
            is_ready = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                task = group.create_task(proxier.run(is_ready), name="proxier")
                await is_ready.wait()
                ready.set_result(None)
                await self._stop.wait()
                task.cancel()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    def stop(self) -> None:
        """Stop it; the rules stay."""
        assert self._thread is not None
        self._do(lambda: self._stop.set() if self._stop is not None else None)
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def transactions(self) -> int:
        """The number of transactions so far that changed rules."""
        assert self._proxier is not None
        return self._proxier.transactions

    def until_transaction(self, before: int) -> None:
        """Wait until there was another transaction, as closely as a measurement needs."""
        pause, end = threading.Event(), perf_counter() + PATIENCE_SECONDS
        while self.transactions == before:
            assert perf_counter() < end, "no transaction"
            pause.wait(0.0005)

    def put(self, *objects: Document) -> None:
        """Create or change objects."""
        for one in objects:
            self._objects[one["kind"], one["metadata"]["name"]] = one
            self._do(partial(self._write, one))

    def remove(self, *objects: Document) -> None:
        """Delete objects."""
        for one in objects:
            del self._objects[one["kind"], one["metadata"]["name"]]
            self._do(partial(self._delete, one))

    def _write(self, one: Document) -> None:
        assert self._api is not None
        self._api.put(_resource(one), one)

    def _delete(self, one: Document) -> None:
        assert self._api is not None
        self._api.remove(_resource(one), namespace="shop", name=one["metadata"]["name"])

    def _do(self, work: Callable[[], None]) -> None:
        async def call() -> None:
            work()

        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(call(), self._loop).result(PATIENCE_SECONDS)


def until(what: Callable[[], bool]) -> None:
    """Wait until something holds; a connection that fails means that it does not yet."""
    end, pause = perf_counter() + PATIENCE_SECONDS, threading.Event()
    while True:
        try:
            if what():
                return
            problem: object = "it does not hold"
        except OSError as error:
            problem = error
        assert perf_counter() < end, problem
        pause.wait(0.02)


def _resource(one: Mapping[str, Any]) -> schema.Resource:
    return {"Service": schema.SERVICES, "EndpointSlice": schema.ENDPOINT_SLICES, "Node": schema.NODES}[one["kind"]]


def _node() -> Document:
    addresses = [{"type": "InternalIP", "address": address} for address in (NODE_IP, NODE_IP6)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE},
        "status": {"addresses": addresses},
    }
