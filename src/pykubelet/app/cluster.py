"""Composes a cluster of one machine: API server, controllers and node in one process.

They communicate only through the Kubernetes API.
"""

import asyncio
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import RandomIds
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.api.scheme import NAMESPACES
from pykubelet.app import program, proxy
from pykubelet.app.apiserver import RunningApiServer, serving
from pykubelet.app.controller_stage import ManagedResources
from pykubelet.app.controllers import CONTROLLERS, NAMESPACE, controllers
from pykubelet.app.dns import RunningDns, open_dns
from pykubelet.app.down import SERVICE_PROXY
from pykubelet.app.joining.beside import routing
from pykubelet.app.joining.command import open_to_nodes
from pykubelet.app.joining.node import cluster_config
from pykubelet.app.joining.pod_range import first_free, with_pod_range
from pykubelet.app.node import Node, open_node
from pykubelet.app.node_dependencies import check_name
from pykubelet.app.node_record import NodeRecord, check_cluster, read_record, replaced_name
from pykubelet.app.node_server import KnownApiServer
from pykubelet.app.pod_network import NodeNetwork, expects_own_networks, open_node_network
from pykubelet.app.program import KUBECONFIG, Say, tune_garbage_collection
from pykubelet.app.runtimes import runs_processes
from pykubelet.app.settings import ApiServerSettings, ClusterSettings, IngressSettings, NodeSettings
from pykubelet.client.interface import Client, ControllerClient
from pykubelet.client.reflector import ListerWatcher
from pykubelet.client.transport import PemSource
from pykubelet.controllers.certificates.signer import CertificateAuthority
from pykubelet.controllers.framework.work_queue import WorkQueueCollector
from pykubelet.controllers.manifests.controller import ManifestController
from pykubelet.controllers.nodeipam.range_allocator import NodeRanges
from pykubelet.controllers.persistentvolume.local_provisioner import LocalVolumes
from pykubelet.controllers.podgc.gc_controller import remove_node
from pykubelet.dns.service import ADDRESS_INDEX
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.listener import is_loopback, is_unspecified
from pykubelet.ingress.parts import IngressParts, ingress_parts
from pykubelet.kubelet.volumemanager.volume_folders import VolumeFolders
from pykubelet.podnetwork.gateway import add_gateway, remove_gateway
from pykubelet.podnetwork.node_address import node_address
from pykubelet.proxy.lock import ProxyLock
from pykubelet.runtimes.protocol import ContainerState, RuntimeFailure

ClusterView = Callable[[Path, ListerWatcher, Clock], Awaitable[None]]
"""Shows a cluster on the terminal until cancelled; takes its kubeconfig, a client and the clock."""
_SYSTEM_NAMESPACE = "kube-system"
"""Its UID stands for the cluster: it is created with the database and cannot be deleted."""
_VOLUMES = "volumes"
"""The folder of provisioned volumes in the data folder."""
_NODE_SECONDS = 5.0
"""How long to wait for the node before announcing the API without it, as when its runtime does not answer."""
_COUNT_SECONDS = 2.0
"""How long the runtime may take to count the pods that keep running."""
_UNDISTURBED_PRESSURE_SECONDS = 5.0
"""Upstream's five minutes keep pods from being admitted and evicted in turns; if none was evicted, they only delay."""
# Upstream's 10 % of the disk suit dedicated machines; the disk of a workstation is often fuller.
_EVICTION_HARD = {"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%"}


def run(settings: ClusterSettings, *, say: Say, view: ClusterView | None = None) -> None:
    """Run a cluster until SIGINT or SIGTERM, shown by `view`; containers keep running. CannotStart if impossible."""

    async def main(clock: Clock, stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            record, node_settings = _earlier_node(settings), _node_settings(settings)
            stack.enter_context(_early_gateway(node_settings, record))
            queues = WorkQueueCollector()
            network = await stack.enter_async_context(_network(settings, record))
            known, ids = _server_settings(settings), RandomIds()
            serves = serving(known, clock=clock, ids=ids, collectors=[queues], network=network)
            served = await stack.enter_async_context(serves)
            node_settings = await _own_folder(node_settings, record, client=served.client, clock=clock, say=say)
            node_settings = await with_pod_range(node_settings, served.client, settings.cluster_cidr)
            dns = await stack.enter_async_context(_cluster_dns(settings, network, served.client, clock))
            proxy_lock = await proxy.claim(network.holder) if settings.service_proxy else None
            if proxy_lock is not None and dns.is_reachable and not settings.cluster_dns:
                node_settings = replace(node_settings, cluster_dns=(dns.cluster_ip,))
            services = _service_proxy(settings, node_settings.node_name, proxy_lock, served.client, clock, network)
            await stack.enter_async_context(services)
            node = await stack.enter_async_context(_own_node(node_settings, served, clock, network))
            ingress = _ingress(settings.ingress, served.client, clock, network.dialer)
            at_work = controllers(
                client=served.client,
                clock=clock,
                root_ca=served.client_authority.decode(),
                authority=CertificateAuthority(served.authority.certificate, served.authority.key),
                names=[name for name in CONTROLLERS if name != NAMESPACE],
                counts=queues,
                listeners=(*dns.listeners, *ingress.listeners),
                resources=_resources(settings, node),
            )
            informed = await stack.enter_async_context(at_work)
            await stack.enter_async_context(_several_machines(settings, served, node, clock=clock, say=say))
            ready = asyncio.Event()
            runners = ingress.runners(informed)
            runners["announcement"] = partial(_announce, node, served.url, say, ready)
            if view is not None:
                shown = partial(view, settings.data_dir / KUBECONFIG, served.client, clock)
                runners["view"] = partial(_when_ready, ready, shown)
            runners |= _objects_of_files(settings, node, served.client, say)
            await stack.enter_async_context(running(runners))
            await stack.enter_async_context(_page(settings, node, served, say))
            await stop.wait()
            await node.shutdown.shut_down()
            await _say_what_stays(settings, node, say)

    program.run(main)


def _network(settings: ClusterSettings, record: NodeRecord | None) -> AbstractAsyncContextManager[NodeNetwork]:
    """The network of pods, which has to be there before the API server listens in it."""
    node = _node_settings(settings)
    if record is not None and record.pod_cidr:
        node = replace(node, pod_cidr=record.pod_cidr)
    services = str(settings.service_cluster_ips)
    return open_node_network(node, runs_processes=runs_processes(node), service_cidr=services)


def _ingress(settings: IngressSettings | None, client: Client, clock: Clock, dialer: Dialer) -> IngressParts:
    if settings is None:
        return IngressParts()
    http, https = settings.http_port, settings.https_port
    return ingress_parts(
        client=client, clock=clock, dialer=dialer, bind=settings.bind, http_port=http, https_port=https
    )


@asynccontextmanager
async def _own_node(
    settings: NodeSettings, served: RunningApiServer, clock: Clock, network: NodeNetwork
) -> AsyncIterator[Node]:
    """Run the node while the context lasts; the server finds its API also if it listens elsewhere than it reports."""
    seen = KnownApiServer(served.url, PemSource("the cluster's authority", data=served.client_authority))
    async with open_node(settings, client=served.client, server=seen, clock=clock, network=network) as node:
        about = node.dependencies.about
        for address in about.ips:
            served.node_proxy.set_listening(address, about.port, node.listening)
        yield node


@asynccontextmanager
async def _several_machines(
    settings: ClusterSettings, served: RunningApiServer, node: Node, *, clock: Clock, say: Say
) -> AsyncIterator[None]:
    """Take nodes of other machines while the context lasts, and route to their pods, unless the API is on loopback."""
    config, is_open = cluster_config(settings, node.dependencies.settings), not is_loopback(settings.bind)
    async with (
        routing(served.client, clock, node, settings.cluster_cidr, is_open=is_open),
        open_to_nodes(settings, served, config, clock=clock, say=say),
    ):
        yield


def _objects_of_files(settings: ClusterSettings, node: Node, client: ControllerClient, say: Say) -> dict[str, Runner]:
    if not settings.manifests:
        return {}
    problems = node.sources.problems
    objects = ManifestController(paths=settings.manifests, client=client, problems=problems, say=say)
    return {"objects of files": with_ready_event(objects.run)}


@asynccontextmanager
async def _service_proxy(
    settings: ClusterSettings,
    node_name: str,
    lock: ProxyLock | None,
    client: Client,
    clock: Clock,
    network: NodeNetwork,
) -> AsyncIterator[None]:
    """Run the service proxy while the context lasts, if the settings say so."""
    if not settings.service_proxy:
        yield
        return
    (settings.data_dir / SERVICE_PROXY).touch(0o600)
    async with proxy.beside_node(client=client, clock=clock, node_name=node_name, lock=lock, network=network):
        yield


@contextmanager
def _early_gateway(settings: NodeSettings, record: NodeRecord | None) -> Iterator[None]:
    """On a machine without an address, pods reach the API and DNS at their gateway, which has to be there before them."""
    if not (runs_processes(settings) and expects_own_networks(settings)) or node_address():
        yield
        return
    known = record.pod_cidr if record is not None else ""
    gateway = str(IPv4Network(known or settings.pod_cidr)[1])
    with suppress(OSError):
        add_gateway(gateway)
    try:
        yield
    finally:
        # The node removes it too, unless it never started.
        with suppress(OSError):
            remove_gateway(gateway)


def _cluster_dns(
    settings: ClusterSettings, network: NodeNetwork, client: Client, clock: Clock
) -> AbstractAsyncContextManager[RunningDns]:
    node = _node_settings(settings)
    return open_dns(
        client=client,
        clock=clock,
        cluster_ip=str(settings.service_cluster_ips[ADDRESS_INDEX]),
        domain=node.cluster_domain,
        pod_networks=(str(settings.cluster_cidr),) if network.has_own or expects_own_networks(node) else (),
        place=network.side,
    )


@asynccontextmanager
async def _page(settings: ClusterSettings, node: Node, served: RunningApiServer, say: Say) -> AsyncIterator[None]:
    """Serve the page while the context lasts, if the settings say so."""
    if settings.page is None:
        yield
        return
    # Imported only if there is a page, for a faster start.
    from pykubelet.app.page import PageCluster, open_page

    around = PageCluster(client=served.client, url=served.url, is_own=True)
    async with open_page(settings.page, node=node, cluster=around, folder=settings.data_dir, say=say):
        yield


def _earlier_node(settings: ClusterSettings) -> NodeRecord | None:
    """The record of the folder's last node; CannotStart if it had another name and nothing says which one holds."""
    node_settings = _node_settings(settings)
    # Before anything of an earlier node is removed.
    check_name(settings.node_name)
    # A cluster that starts empty has no earlier node.
    record = None if settings.start_empty else read_record(node_settings.root_dir)
    replaced_name(record, node_settings)
    return record


async def _own_folder(
    settings: NodeSettings, record: NodeRecord | None, *, client: Client, clock: Clock, say: Say
) -> NodeSettings:
    """The settings with the cluster; removes the node's earlier name. CannotStart if the folder is another cluster's."""
    found = replace(settings, cluster=(await client.get(NAMESPACES, _SYSTEM_NAMESPACE)).metadata.uid)
    check_cluster(record, found)
    if old_name := replaced_name(record, found):
        count = await remove_node(client, old_name, clock)
        say(f"node {old_name} and its pods ({count}) are removed: this node is now called {found.node_name}")
    return found


async def _when_ready(ready: asyncio.Event, run: Runner) -> None:
    await ready.wait()
    await run()


async def _announce(node: Node, url: str, say: Say, ready: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_NODE_SECONDS):
            await node.until_ready()
    except TimeoutError:
        say(f"node {node.dependencies.name} is not ready yet")
    say(f"ready {url}")
    ready.set()
    tune_garbage_collection()


async def _say_what_stays(settings: ClusterSettings, node: Node, say: Say) -> None:
    """Say how many pods keep running without the program, and how to stop them."""
    try:
        async with asyncio.timeout(_COUNT_SECONDS):
            pods = await node.dependencies.runtime.runtime.pods()
    except (RuntimeFailure, TimeoutError):
        return
    count = sum(any(one.state == ContainerState.RUNNING for one in pod.containers) for pod in pods)
    if count and node.dependencies.runtime.name != "sim":
        what = "1 pod keeps" if count == 1 else f"{count} pods keep"
        options = ["--data-dir", str(settings.data_dir)]
        options += ["--cri-socket", settings.cri_socket] if settings.cri_socket else []
        say(f"{what} running; to stop: pykubelet down {shlex.join(options)}")


def _server_settings(settings: ClusterSettings) -> ApiServerSettings:
    return ApiServerSettings(
        data_dir=settings.data_dir,
        bind=settings.bind,
        port=settings.port,
        service_cluster_ips=settings.service_cluster_ips,
        start_empty=settings.start_empty,
        service_account_admission=True,
        with_node=True,
    )


def _resources(settings: ClusterSettings, node: Node) -> ManagedResources:
    own = node.dependencies.settings
    ranges = NodeRanges(settings.cluster_cidr, {own.node_name: own.node_pod_cidr})
    return ManagedResources(local_volumes=_local_volumes(settings, node), node_ranges=ranges)


def _local_volumes(settings: ClusterSettings, node: Node) -> LocalVolumes:
    """The folders of provisioned volumes, beside those of the node: a node that is set up anew keeps them."""
    root = settings.data_dir.resolve() / _VOLUMES
    folders = VolumeFolders(root)
    return LocalVolumes(node_name=node.dependencies.name, root=root, make=folders.make, remove=folders.remove)


def _node_settings(settings: ClusterSettings) -> NodeSettings:
    return NodeSettings(
        node_name=settings.node_name,
        is_default_name=settings.is_default_name,
        root_dir=settings.data_dir / "node",
        runtime=settings.runtime,
        cri_socket=settings.cri_socket,
        max_pods=settings.max_pods,
        cluster_dns=settings.cluster_dns,
        pod_network=settings.pod_network,
        pod_cidr=settings.pod_cidr or first_free(settings.cluster_cidr, ()) or "",
        node_pod_cidr=settings.pod_cidr,
        cluster_cidr=str(settings.cluster_cidr),
        manifests=settings.manifests,
        # An address that the user chose is the one at which other machines reach this one.
        bind="" if is_loopback(settings.bind) or is_unspecified(settings.bind) else settings.bind,
        port=0,
        eviction_hard=_EVICTION_HARD,
        undisturbed_pressure_seconds=_UNDISTURBED_PRESSURE_SECONDS,
        with_server=True,
    )
