"""`pykubelet node` as a program: joins a cluster or runs alone, until it is stopped.

A node joins with a bootstrap token once, and with its client certificate from then on.

Upstream: cmd/kubelet/app/server.go
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import Runner, background_task, running, with_ready_event
from pykubelet.api.errors import ApiError
from pykubelet.app import program
from pykubelet.app.joining import beside
from pykubelet.app.joining.node import ClusterConfig, bootstrap_access, check_name_is_free, fetch_cluster_config
from pykubelet.app.joining.pod_range import wait_for_pod_range, with_known_pod_range
from pykubelet.app.node import open_node
from pykubelet.app.node_record import read_record, replaced_name
from pykubelet.app.node_server import KnownApiServer
from pykubelet.app.pod_network import open_node_network
from pykubelet.app.program import Say, read_rest_config, tune_garbage_collection
from pykubelet.app.runtimes import runs_processes
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.client.certificates.bootstrap import bootstrap, needs_bootstrap
from pykubelet.client.certificates.csr import RequestRefused, client_template, satisfies
from pykubelet.client.certificates.manager import CertificateManager
from pykubelet.client.certificates.store import CertificateStore, CertificateStoreError
from pykubelet.client.rest import RestClient, RestClientMetrics
from pykubelet.client.transport import CredentialError, RestConfig, RotatingCertificate
from pykubelet.kubelet.stats.metrics import MetricsCollector


class NodeConnection(NamedTuple):
    """A node's API server, and the client for it."""

    client: RestClient
    server: KnownApiServer
    is_node: bool
    """Whether the client authenticates as this node, which may do less than others."""
    requests: RestClientMetrics


async def join_cluster(settings: NodeSettings, kubeconfig: Path, *, clock: Clock, stop: asyncio.Event) -> bool:
    """Request a client certificate if the node has none; False if stopped before. CannotStart if denied or expired."""
    if settings.bootstrap_kubeconfig is None and settings.join is None:
        return True
    if not await needs_bootstrap(kubeconfig, clock):
        return True
    if settings.join is not None:
        access, means = await bootstrap_access(settings.join, clock), "the token"
    else:
        assert settings.bootstrap_kubeconfig is not None
        access, means = read_rest_config(settings.bootstrap_kubeconfig, clock), str(settings.bootstrap_kubeconfig)
    try:
        async with asyncio.timeout(None) as until_stopped, background_task(_end(until_stopped, stop), "stop requested"):
            await _bootstrap(settings, kubeconfig, access, clock)
    except TimeoutError as error:
        if stop.is_set():
            return False
        raise CannotStart("the node's certificate request was not signed; approve it and start again") from error
    except (ApiError, RequestRefused, CertificateStoreError) as error:
        raise CannotStart(f"the node cannot join with {means}: {error}") from error
    return True


async def _bootstrap(settings: NodeSettings, kubeconfig: Path, access: RestConfig, clock: Clock) -> None:
    name = settings.node_name
    files = CertificateStore(settings.root_dir / "pki", client_template(name).file_name)
    async with RestClient(access, clock=clock) as client:
        if settings.join is not None:
            await check_name_is_free(client, name)
        await bootstrap(client, access=access, node_name=name, kubeconfig=kubeconfig, files=files, clock=clock)


async def _end(scope: asyncio.Timeout, stop: asyncio.Event) -> None:
    await stop.wait()
    scope.reschedule(0.0)


@asynccontextmanager
async def connected(settings: NodeSettings, kubeconfig: Path, *, clock: Clock) -> AsyncIterator[NodeConnection]:
    """Connect to the API server of a kubeconfig while the context lasts; renews the client certificate."""
    access = read_rest_config(kubeconfig, clock)
    template, held = client_template(settings.node_name), await _certificate(access)
    renewed = RotatingCertificate(access.credentials, clock=clock)
    async with RestClient(replace(access, credentials=renewed), clock=clock) as client:
        runners: dict[str, Runner] = {}
        # The node does not renew another client's certificate, such as an administrator's.
        is_node = held is not None and satisfies(held, template)
        if settings.rotate_certificates and is_node:
            files = CertificateStore(settings.root_dir / "pki", template.file_name)
            keeper = CertificateManager(
                client=client, template=template, files=files, clock=clock, changed=renewed.use, held=held
            )
            runners["client certificate"] = with_ready_event(keeper.run)
        async with running(runners):
            yield NodeConnection(client, KnownApiServer(access.server, access.trust.ca), is_node, client.counts)


async def _certificate(access: RestConfig) -> x509.Certificate | None:
    """The client certificate of a kubeconfig; None without a readable one."""
    try:
        pair = (await access.credentials.current()).pair
        return x509.load_pem_x509_certificate(pair.certificate) if pair else None
    except (CredentialError, ValueError):
        # The client reports it with each request.
        return None


async def _within_cluster(
    settings: NodeSettings, connection: NodeConnection, *, stop: asyncio.Event, say: Say
) -> tuple[NodeSettings, ClusterConfig | None] | None:
    """The settings with what the cluster decides: the range of pods, and for a joined node more; None if stopped before."""
    record, client, join = read_record(settings.root_dir), connection.client, settings.join
    if join is not None or settings.pod_network != "host":
        recorded = record.pod_cidr if record is not None else ""
        settings = await with_known_pod_range(settings, client, recorded=recorded)
    if join is None:
        return settings, None
    if connection.server.url != join.server:
        raise CannotStart(
            f"{settings.root_dir} belongs to the cluster at {connection.server.url}: choose another folder"
        )
    config = await fetch_cluster_config(client, settings.root_dir)
    settings = config.of_node(settings)
    has_processes = settings.pod_network != "host" and settings.runtime in ("auto", "process")
    if (has_processes or settings.runtime == "cri") and not settings.node_pod_cidr:
        try:
            async with asyncio.timeout(None) as until_stopped, background_task(_end(until_stopped, stop), "stop asked"):
                settings = await wait_for_pod_range(settings, client, say)
        except TimeoutError:
            return None
    return settings, config


def run(settings: NodeSettings, *, say: Say) -> None:
    """Run a node until SIGINT or SIGTERM; its containers keep running. CannotStart if it cannot start."""

    async def main(clock: Clock, stop: asyncio.Event) -> None:
        if old_name := replaced_name(read_record(settings.root_dir), settings):
            say(f"node {old_name} is now called {settings.node_name}: delete node {old_name} in its cluster")
        async with AsyncExitStack() as stack:
            node_settings, client, server, collectors = settings, None, None, tuple[MetricsCollector, ...]()
            config: ClusterConfig | None = None
            if settings.kubeconfig is not None:
                if not await join_cluster(settings, settings.kubeconfig, clock=clock, stop=stop):
                    return
                joined = await stack.enter_async_context(connected(settings, settings.kubeconfig, clock=clock))
                client, server, collectors = joined.client, joined.server, (joined.requests,)
                node_settings = replace(settings, only_named_objects=joined.is_node)
                known = await _within_cluster(node_settings, joined, stop=stop, say=say)
                if known is None:
                    return
                node_settings, config = known
            network = await stack.enter_async_context(
                open_node_network(node_settings, runs_processes=runs_processes(node_settings))
            )
            opened = open_node(
                node_settings, client=client, server=server, clock=clock, collectors=collectors, network=network
            )
            node = await stack.enter_async_context(opened)
            if client is not None and config is not None:
                await stack.enter_async_context(beside.joined(client, clock, node, config))

            async def announce() -> None:
                await node.until_ready()
                say(f"ready node {settings.node_name}")
                tune_garbage_collection()

            await stack.enter_async_context(running({"announcement": announce}))
            if settings.page is not None:
                # Imported here because only the page needs it.
                from pykubelet.app.page import PageCluster, open_page

                around = PageCluster(client=client, url=server.url if server is not None else "")
                page = open_page(settings.page, node=node, cluster=around, folder=settings.root_dir, say=say)
                await stack.enter_async_context(page)
            await stop.wait()
            await node.shutdown.shut_down()

    program.run(main)
