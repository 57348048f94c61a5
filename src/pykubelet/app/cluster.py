"""Composes a cluster of one machine: API server, controllers and node in one process.

They communicate only through the Kubernetes API.
"""

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import RandomIds
from pykubelet.aio.log import Lines
from pykubelet.aio.tasks import Runner, background_task, running, with_ready_event
from pykubelet.api import schema
from pykubelet.api.scheme import as_documents
from pykubelet.api.serializer import Document
from pykubelet.app import program
from pykubelet.app.apiserver import serving
from pykubelet.app.controllers import CONTROLLERS, NAMESPACE, controllers
from pykubelet.app.node import Node, open_node
from pykubelet.app.node_server import KnownApiServer
from pykubelet.app.program import KUBECONFIG, Say, tune_garbage_collection
from pykubelet.app.settings import ApiServerSettings, ClusterSettings, NodeSettings
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.client.transport import PemSource
from pykubelet.controllers.certificates.signer import CertificateAuthority
from pykubelet.controllers.framework.work_queue import WorkQueueCollector
from pykubelet.controllers.manifests.controller import ManifestController

PAUSE_SECONDS = 0.2
"""The least time between two updates of the view; collects a burst of changes."""
_NODE_SECONDS = 5.0
"""How long to wait for the node before announcing the API without it, as when its runtime does not answer."""
# Upstream's 10 % of the disk suit dedicated machines; the disk of a workstation is often fuller.
_EVICTION_HARD = {"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%"}


@dataclass(frozen=True, slots=True)
class StartedCluster:
    """The URL and kubeconfig of a running cluster."""

    url: str
    kubeconfig: Path


class LiveClusterView(Protocol):
    """Shows a cluster on the terminal."""

    @property
    def lines(self) -> Lines:
        """The stream for log lines, which must not disturb the view."""

    def started(self, started: StartedCluster) -> None:
        """The cluster is ready."""

    def pods(self, pods: Collection[Document]) -> None:
        """The pods have changed."""


class ViewedPods:
    """Follows the pods of a cluster and updates a view, at a limited rate; a ResourceEventHandler."""

    def __init__(self, view: LiveClusterView) -> None:
        self._view = view
        self._pods: dict[tuple[str, str], Document] = {}
        self._changed = asyncio.Event()

    async def run(self, client: ListerWatcher, clock: Clock) -> None:
        """Follow the pods until cancelled."""
        kind = as_documents(schema.PODS)
        reflector: Reflector[Document] = Reflector(client=client, kind=kind, sink=self, clock=clock)
        async with background_task(reflector.run(asyncio.Event()), "pods of the view"):
            while True:
                await self._changed.wait()
                self._changed.clear()
                self._view.pods(self._pods.values())
                await asyncio.sleep(PAUSE_SECONDS)

    def added(self, pod: Document) -> None:
        self._pods[_key(pod)] = pod
        self._changed.set()

    modified = added

    def deleted(self, pod: Document) -> None:
        self._pods.pop(_key(pod), None)
        self._changed.set()

    def synced(self) -> None:
        self._changed.set()


def _key(pod: Document) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def run(settings: ClusterSettings, *, say: Say, view: LiveClusterView | None = None) -> None:
    """Run a cluster until SIGINT or SIGTERM; containers keep running. CannotStart if that is impossible.

    `view` shows the cluster on the terminal.
    """

    async def main(clock: Clock, stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            server = ApiServerSettings(data_dir=settings.data_dir, port=settings.port)
            queues = WorkQueueCollector()
            serves = serving(server, clock=clock, ids=RandomIds(), collectors=[queues])
            served = await stack.enter_async_context(serves)
            seen = KnownApiServer(served.url, PemSource("the cluster's authority", data=served.client_authority))
            opened = open_node(_node_settings(settings), client=served.client, server=seen, clock=clock)
            node = await stack.enter_async_context(opened)
            root_ca = served.client_authority.decode()
            authority = CertificateAuthority(served.authority.certificate, served.authority.key)
            names = [name for name in CONTROLLERS if name != NAMESPACE]
            at_work = controllers(
                client=served.client, clock=clock, root_ca=root_ca, authority=authority, names=names, counts=queues
            )
            await stack.enter_async_context(at_work)
            ready = asyncio.Event()
            runners: dict[str, Runner] = {"announcement": lambda: _announce(node, served.url, say, ready)}
            if view is not None:
                started = StartedCluster(served.url, settings.data_dir / KUBECONFIG)
                runners["view"] = lambda: _show(view, started, served.client, clock, ready)
            if settings.manifests:
                objects = ManifestController(
                    paths=settings.manifests, client=served.client, problems=node.sources.problems, say=say
                )
                runners["objects of files"] = with_ready_event(objects.run)
            await stack.enter_async_context(running(runners))
            if settings.page is not None:
                # Imported only if there is a page, for a faster start.
                from pykubelet.app.page import PageCluster, open_page

                around = PageCluster(client=served.client, url=served.url, is_own=True)
                opened_page = open_page(settings.page, node=node, cluster=around, folder=settings.data_dir, say=say)
                await stack.enter_async_context(opened_page)
            await stop.wait()
            await node.shutdown.shut_down()

    program.run(main)


async def _show(
    view: LiveClusterView, started: StartedCluster, client: ListerWatcher, clock: Clock, ready: asyncio.Event
) -> None:
    await ready.wait()
    view.started(started)
    await ViewedPods(view).run(client, clock)


async def _announce(node: Node, url: str, say: Say, ready: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_NODE_SECONDS):
            await node.until_ready()
    except TimeoutError:
        say(f"node {node.dependencies.name} is not ready yet")
    say(f"ready {url}")
    ready.set()
    tune_garbage_collection()


def _node_settings(settings: ClusterSettings) -> NodeSettings:
    return NodeSettings(
        node_name=settings.node_name,
        root_dir=settings.data_dir / "node",
        runtime=settings.runtime,
        manifests=settings.manifests,
        port=0,
        eviction_hard=_EVICTION_HARD,
        with_server=True,
    )
