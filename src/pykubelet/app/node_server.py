"""Composes the kubelet's API: its listener, certificates, authorization and handlers."""

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.app.holders import port_taken
from pykubelet.app.node_dependencies import NodeDependencies
from pykubelet.app.node_pods import NodePods
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.client.certificates.csr import serving_template
from pykubelet.client.certificates.manager import CertificateManager
from pykubelet.client.certificates.store import CertificateStore
from pykubelet.client.interface import Client
from pykubelet.client.transport import PemSource
from pykubelet.httpserver.listener import listen, listen_address
from pykubelet.kubelet.explain.explainer import PodExplainer
from pykubelet.kubelet.kubelet import Kubelet
from pykubelet.kubelet.nodestatus.machine import node_ip
from pykubelet.kubelet.pleg.pleg import PodLifecycleEventGenerator
from pykubelet.kubelet.server.auth import ApiServerAccessReviewer, CertificateOnlyAccess, KubeletAuth
from pykubelet.kubelet.server.certificate import (
    SelfSignedRenewal,
    ServingError,
    self_signed_certificate,
    server_context,
)
from pykubelet.kubelet.server.container_logs import ContainerLogs
from pykubelet.kubelet.server.handlers import KubeletHandlers, KubeletPages
from pykubelet.kubelet.server.pod_commands import PodCommands
from pykubelet.kubelet.server.server import KubeletServer, ServerRequestMetrics
from pykubelet.kubelet.stats.machine_usage import MachineReader
from pykubelet.kubelet.stats.metrics import MetricsCollector
from pykubelet.kubelet.stats.provider import StatsProvider


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeListener:
    """The listening socket of the kubelet's API, not served yet. `address` is how others reach it."""

    listener: socket.socket
    tls: ssl.SSLContext
    address: str
    knows_clients: bool
    """Whether client certificates are accepted."""

    @property
    def port(self) -> int:
        found: int = self.listener.getsockname()[1]
        return found


class KnownApiServer(NamedTuple):
    """The node's API server: its URL, and the authority of its clients."""

    url: str
    client_authority: PemSource | None


@asynccontextmanager
async def open_listener(
    settings: NodeSettings, *, server: KnownApiServer | None, clock: Clock
) -> AsyncIterator[NodeListener]:
    """Open the socket of the kubelet's API while the context lasts; CannotStart if that fails."""
    listener = await asyncio.to_thread(_open, settings, server or KnownApiServer("", None), clock)
    with listener.listener:
        yield listener


def _open(settings: NodeSettings, server: KnownApiServer, clock: Clock) -> NodeListener:
    bind, address = listen_address(settings.bind, server.url, node_ip(settings.node_name))
    authority = server.client_authority
    if settings.client_ca is not None:
        authority = PemSource("--client-ca", path=str(settings.client_ca))
    try:
        files = self_signed_certificate(settings.root_dir / "pki", [address, settings.node_name], clock.now())
        tls = server_context(files, authority)
        return NodeListener(
            listener=listen(bind, settings.port), tls=tls, address=address, knows_clients=authority is not None
        )
    except ServingError as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotStart(f"the node's API: {port_taken(settings.port, bind)}") from error
        place = error.filename or f"the node's API cannot listen on {bind}:{settings.port}"
        raise CannotStart(f"{place}: {error.strerror or error}") from error


def own_renewal(listener: NodeListener, settings: NodeSettings, *, clock: Clock) -> SelfSignedRenewal:
    """Renews the self-signed certificate before it expires; new connections get the new one."""
    names = (listener.address, settings.node_name)
    return SelfSignedRenewal(settings.root_dir / "pki", names, changed=listener.tls.load_cert_chain, clock=clock)


def serving_certificate(
    listener: NodeListener, settings: NodeSettings, *, client: Client, clock: Clock
) -> CertificateManager:
    """Requests the serving certificate from the API server and renews it; new connections get it."""
    template = serving_template(settings.node_name, [listener.address, settings.node_name])
    files = CertificateStore(settings.root_dir / "pki", template.file_name)
    return CertificateManager(
        client=client, template=template, files=files, clock=clock, changed=listener.tls.load_cert_chain
    )


@asynccontextmanager
async def serving_node_api(
    listener: NodeListener,
    *,
    deps: NodeDependencies,
    pods: NodePods,
    pleg: PodLifecycleEventGenerator,
    kubelet: Kubelet,
    explainer: PodExplainer,
    collectors: Iterable[MetricsCollector] = (),
) -> AsyncIterator[None]:
    """Serve the kubelet's API while the context lasts."""
    parts, clock, client, counts = deps.runtime, deps.clock, deps.client, ServerRequestMetrics()
    reviewer = (
        ApiServerAccessReviewer(api=client, node_name=deps.name, clock=clock)
        if client is not None
        else CertificateOnlyAccess()
    )
    machine = MachineReader(data_dir=deps.settings.root_dir, clock=clock)
    pages = KubeletPages(
        pods=pods.pods,
        statuses=pods.statuses,
        runtime=parts.runtime,
        stats=StatsProvider(node_name=deps.name, machine=machine, runtime=parts.runtime, usages=parts.usages),
        checks={"syncloop": kubelet.stuck_error},
        explain=explainer.explain,
        collectors=[counts, *collectors],
        probe_collectors=[pods.probes.counts],
    )
    cache = pleg.cache
    front = KubeletHandlers(
        auth=KubeletAuth(reviewer),
        pages=pages,
        logs=ContainerLogs(pods=pods.pods, statuses=pods.statuses, cache=cache, paths=deps.logs, clock=clock),
        commands=PodCommands(pods=pods.pods, cache=cache, streams=parts.streams, commands=parts.commands),
    )
    async with KubeletServer(front, counts).serving(listener.listener, listener.tls):
        yield
