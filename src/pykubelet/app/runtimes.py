"""Opens the runtime that the settings name; the only module that imports the runtimes."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import RandomIds
from pykubelet.aio.log import get_logger
from pykubelet.app.holders import folder_taken
from pykubelet.app.pod_network import (
    MACHINE_NETWORK,
    STATE,
    NodeNetwork,
    PodNetworkChoice,
    address_for_pods,
    choose_pod_network,
)
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.httpserver.http_client import HttpGetter, InsecureHttpClient
from pykubelet.kubelet.housekeeping import OrphanRemover
from pykubelet.kubelet.kuberuntime.instrumented_services import (
    InstrumentedCommands,
    InstrumentedImages,
    InstrumentedRuntime,
    RuntimeOperationMetrics,
)
from pykubelet.kubelet.nodestatus.machine import node_ip
from pykubelet.kubelet.nodestatus.node_status import RuntimeConditions
from pykubelet.kubelet.prober.http_probe import AiohttpProbeClient, HttpProbeClient
from pykubelet.kubelet.prober.prober import SimulatedProbes, SocketProber, SystemSocketProber
from pykubelet.podnetwork.holder_client import NETWORKS
from pykubelet.podnetwork.host_port_relays import HostPortRelays
from pykubelet.podnetwork.pod_networks import PodNetworks
from pykubelet.runtimes.cri.cni import CniNetwork
from pykubelet.runtimes.cri.host import SOCKETS, find_socket
from pykubelet.runtimes.dns import ClusterDns
from pykubelet.runtimes.folder_lock import FolderInUse
from pykubelet.runtimes.limits import ALL_ENFORCED, UnenforcedLimits
from pykubelet.runtimes.process.cgroups import PIDS, find_cgroups, unenforced_limits
from pykubelet.runtimes.process.runtime import ProcessImages, ProcessRuntime
from pykubelet.runtimes.protocol import (
    ChangeFeed,
    Commands,
    ImageFs,
    Images,
    LogWriter,
    Runtime,
    RuntimeFailure,
    Streams,
    Usages,
)
from pykubelet.runtimes.sim.runtime import SimHttpClient, SimImages, SimRuntime

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeParts:
    """A runtime with its optional parts; missing ones are None. `name` is the scheme of container IDs."""

    name: str
    version: str
    runtime: Runtime
    images: Images | None = None
    feed: ChangeFeed | None = None
    commands: Commands | None = None
    streams: Streams | None = None
    usages: Usages | None = None
    image_fs: ImageFs | None = None
    log_writer: LogWriter | None = None
    state: RuntimeConditions | None = None
    hook_http: HttpGetter = field(default_factory=InsecureHttpClient)
    probe_http: HttpProbeClient = field(default_factory=AiohttpProbeClient)
    probe_sockets: SocketProber = field(default_factory=SystemSocketProber)
    orphans: OrphanRemover | None = None
    """Removes what pods that are gone have left beside containers, such as cgroups."""
    limits_pids: bool = False
    """Whether the runtime enforces a limit of processes."""
    unenforced_limits: UnenforcedLimits = ALL_ENFORCED
    operations: RuntimeOperationMetrics | None = None
    """The metrics of runtime operations, if collected."""
    has_pod_networks: bool = False
    """Whether pods have networks of their own, in which the machine's loopback is not theirs."""
    app_armor_error: str = ""
    """Why AppArmor profiles are not enforced; empty if they are."""
    network_problem: str = ""
    """Why pods share the machine's network although the settings prefer others; empty if they do not."""
    egress_problem: str = ""
    """Why pods with networks of their own do not reach other machines; empty if they do."""


@asynccontextmanager
async def open_runtime(
    settings: NodeSettings, *, clock: Clock, network: NodeNetwork = MACHINE_NETWORK
) -> AsyncIterator[RuntimeParts]:
    """Open the runtime of the settings for the duration of the context; CannotStart if there is none.

    Processes of an ordinary user have the networks of `network`.
    """
    opener = _OPENERS.get(settings.runtime)
    if opener is None:
        raise CannotStart(f"unknown runtime {settings.runtime!r}; known are: {', '.join(sorted(_OPENERS))}")
    async with opener(settings, clock, network) as parts:
        yield parts


def runs_processes(settings: NodeSettings) -> bool:
    """Whether containers are certain to be processes."""
    if settings.runtime != "auto":
        return settings.runtime == "process"
    found = find_socket(settings.cri_socket)
    return not found or not os.access(found, os.W_OK)


def counted(parts: RuntimeParts, *, clock: Clock) -> RuntimeParts:
    """The same runtime with metrics of its operations."""
    counts = RuntimeOperationMetrics(clock=clock)
    return replace(
        parts,
        operations=counts,
        runtime=InstrumentedRuntime(parts.runtime, counts),
        images=InstrumentedImages(parts.images, counts, clock=clock) if parts.images is not None else None,
        commands=InstrumentedCommands(parts.commands, counts) if parts.commands is not None else None,
    )


def simulated(runtime: SimRuntime, images: SimImages | None = None) -> RuntimeParts:
    """Simulated containers, with simulated HTTP hooks and probes."""
    probes, images = SimulatedProbes(runtime.health_at), images or SimImages()
    return RuntimeParts(
        name="sim",
        version="1",
        runtime=runtime,
        images=images,
        feed=runtime,
        commands=runtime,
        usages=runtime,
        image_fs=images,
        hook_http=SimHttpClient(runtime),
        probe_http=probes,
        probe_sockets=probes,
    )


@asynccontextmanager
async def _sim(_: NodeSettings, clock: Clock, _network: NodeNetwork) -> AsyncIterator[RuntimeParts]:
    yield simulated(SimRuntime(clock=clock))


@asynccontextmanager
async def _process(settings: NodeSettings, clock: Clock, network: NodeNetwork) -> AsyncIterator[RuntimeParts]:
    choice = await _choose_pod_network(settings, network)
    address = await asyncio.to_thread(address_for_pods, settings) if choice.pod_cidr else settings.address
    ips = (address or await asyncio.to_thread(node_ip, settings.node_name) or "127.0.0.1",)
    root, dialer = settings.root_dir.absolute() / STATE, network.dialer
    try:
        async with ProcessRuntime(
            root=root,
            ips=ips,
            clock=clock,
            ids=RandomIds(),
            max_pids=settings.pod_max_pids,
            cluster_dns=_cluster_dns(settings),
            networks=_pod_networks(root, settings, choice.pod_cidr, network),
        ) as runtime:
            if network.holder is not None:
                network.holder.listen_to_restarts(runtime.restore_networks)
            cgroups = await asyncio.to_thread(find_cgroups)
            yield RuntimeParts(
                name="process",
                version="1",
                runtime=runtime,
                images=ProcessImages(os.geteuid()),
                feed=runtime,
                commands=runtime,
                streams=runtime,
                usages=runtime,
                log_writer=runtime,
                hook_http=InsecureHttpClient(dialer),
                probe_http=AiohttpProbeClient(dialer),
                probe_sockets=SystemSocketProber(dialer),
                has_pod_networks=bool(choice.pod_cidr),
                limits_pids=PIDS in cgroups.folders,
                unenforced_limits=unenforced_limits(cgroups, max_pids=settings.pod_max_pids),
                network_problem=choice.problem,
                egress_problem=network.egress_problem,
            )
    except FolderInUse as error:
        raise CannotStart(folder_taken(settings.root_dir, error)) from error
    except (OSError, RuntimeFailure) as error:
        raise CannotStart(f"containers cannot be run as processes: {error}") from error


async def _choose_pod_network(settings: NodeSettings, network: NodeNetwork) -> PodNetworkChoice:
    if network.holder is None and not network.problem:
        return await choose_pod_network(settings)
    return PodNetworkChoice(
        network.holder.pod_cidr if network.has_own and network.holder is not None else "", network.problem
    )


def _cni_network(settings: NodeSettings) -> CniNetwork | None:
    """The network of pods in a cluster that gave the node a range, if the user chose this runtime."""
    if settings.runtime != "cri" or not settings.node_pod_cidr or not settings.cluster_cidr or os.geteuid() != 0:
        return None
    folder = settings.root_dir.absolute() / "cni"
    return CniNetwork(pod_cidr=settings.node_pod_cidr, cluster_cidr=settings.cluster_cidr, folder=folder)


def _pod_networks(root: Path, settings: NodeSettings, pod_cidr: str, network: NodeNetwork) -> PodNetworks:
    if network.holder is None:
        return PodNetworks(root / NETWORKS, pod_cidr, cluster_cidr=settings.cluster_cidr)
    return PodNetworks(root / NETWORKS, pod_cidr, network.holder, HostPortRelays(network.dialer))


def _cluster_dns(settings: NodeSettings) -> ClusterDns:
    return ClusterDns(servers=settings.cluster_dns, domain=settings.cluster_domain)


@asynccontextmanager
async def _cri(settings: NodeSettings, _: Clock, _network: NodeNetwork) -> AsyncIterator[RuntimeParts]:
    socket = find_socket(settings.cri_socket)
    if not socket:
        raise CannotStart(f"no container runtime listens at {', '.join(SOCKETS)}; set --cri-socket")
    # gRPC would write its own lines to stderr when a runtime goes away; the failure is logged anyway.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # Importing gRPC takes a tenth of a second, which other runtimes need not spend.
    from pykubelet.runtimes.cri.connect import CriSettings, open_cri

    known = CriSettings(
        socket=socket,
        cluster_dns=_cluster_dns(settings),
        cgroup_root=settings.cgroup_root,
        seccomp_root=str(settings.root_dir / "seccomp"),
        seccomp_default=settings.seccomp_default,
        max_pids=settings.pod_max_pids,
        network=_cni_network(settings),
    )
    # Only failures while opening concern the socket.
    async with AsyncExitStack() as stack:
        try:
            found = await stack.enter_async_context(open_cri(known))
        except RuntimeFailure as failure:
            raise CannotStart(f"the container runtime at {socket} does not answer: {failure.message}") from failure
        yield RuntimeParts(
            name=found.name,
            version=found.version,
            runtime=found.runtime,
            images=found.images,
            feed=found.runtime if found.has_changes else None,
            commands=found.runtime,
            streams=found.streams,
            usages=found.usages,
            image_fs=found.images,
            log_writer=found.runtime,
            orphans=found.runtime,
            limits_pids=found.limits_pids,
            state=found.state,
            has_pod_networks=True,
            app_armor_error=found.app_armor_error,
        )


@asynccontextmanager
async def _auto(settings: NodeSettings, clock: Clock, network: NodeNetwork) -> AsyncIterator[RuntimeParts]:
    """A CRI runtime if one is available and ready, otherwise processes."""
    async with AsyncExitStack() as stack:
        try:
            found = await stack.enter_async_context(_cri(settings, clock, network))
            why = (found.state.runtime_error() or found.state.network_error()) if found.state else ""
        except CannotStart as error:
            why = str(error)
        if why:
            log.info("running containers as processes", why=why)
            found = await stack.enter_async_context(_process(settings, clock, network))
        yield found


_OPENERS: dict[str, Callable[[NodeSettings, Clock, NodeNetwork], AbstractAsyncContextManager[RuntimeParts]]] = {
    "auto": _auto,
    "cri": _cri,
    "process": _process,
    "sim": _sim,
}
