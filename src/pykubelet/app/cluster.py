"""A cluster of one machine put together: API server, controllers and node in one process.

They meet only through the Kubernetes API, as if they were strangers.
"""

import asyncio
from contextlib import AsyncExitStack

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import RandomIds
from pykubelet.app import program
from pykubelet.app.apiserver import serving
from pykubelet.app.controllers import CONTROLLERS, NAMESPACE, controllers
from pykubelet.app.kubeconfigs import KUBECONFIG
from pykubelet.app.node import Node, open_node
from pykubelet.app.node_door import ServerSeen
from pykubelet.app.program import Say, tune_garbage_collection
from pykubelet.app.running import Runner, running, with_event
from pykubelet.app.settings import ApiServerSettings, ClusterSettings, NodeSettings
from pykubelet.app.view import PodBoard, Started, View
from pykubelet.controllers.certificates import Authority
from pykubelet.controllers.manifests import ManifestController
from pykubelet.controllers.queue_counts import QueueCounts
from pykubelet.kube.pem_files import Pem
from pykubelet.kube.reflector import ListerWatcher

_NODE_SECONDS = 5.0
"""How long the node may take before the API is called ready without it, as when its runtime does not answer."""

# Upstream's 10 % of the disk are for machines that do nothing else: on somebody's own they are often full.
_EVICTION_HARD = {"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%"}


def run(settings: ClusterSettings, *, say: Say, view: View | None = None) -> None:
    """Be a cluster until SIGINT or SIGTERM; containers go on running. CannotStart if that is not possible.

    A view, if there is one, shows it to whoever started it.
    """

    async def main(clock: Clock, stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            server = ApiServerSettings(data_dir=settings.data_dir, port=settings.port)
            queues = QueueCounts()
            serves = serving(server, clock=clock, ids=RandomIds(), collectors=[queues])
            served = await stack.enter_async_context(serves)
            seen = ServerSeen(served.url, Pem("the cluster's authority", data=served.client_authority))
            opened = open_node(_node_settings(settings), client=served.client, server=seen, clock=clock)
            node = await stack.enter_async_context(opened)
            root_ca = served.client_authority.decode()
            authority = Authority(served.authority.certificate, served.authority.key)
            names = [name for name in CONTROLLERS if name != NAMESPACE]
            at_work = controllers(
                client=served.client, clock=clock, root_ca=root_ca, authority=authority, names=names, counts=queues
            )
            await stack.enter_async_context(at_work)
            ready = asyncio.Event()
            runners: dict[str, Runner] = {"announcement": lambda: _announce(node, served.url, say, ready)}
            if view is not None:
                started = Started(served.url, settings.data_dir / KUBECONFIG)
                runners["view"] = lambda: _show(view, started, served.client, clock, ready)
            if settings.manifests:
                objects = ManifestController(
                    paths=settings.manifests, client=served.client, problems=node.sources.problems, say=say
                )
                runners["objects of files"] = with_event(objects.run)
            await stack.enter_async_context(running(runners))
            if settings.page is not None:
                # What only the page needs is nobody else's start.
                from pykubelet.app.page import Cluster, open_page

                around = Cluster(client=served.client, url=served.url, is_own=True)
                opened_page = open_page(settings.page, node=node, cluster=around, folder=settings.data_dir, say=say)
                await stack.enter_async_context(opened_page)
            await stop.wait()
            await node.shutdown.shut_down()

    program.run(main)


async def _show(view: View, started: Started, client: ListerWatcher, clock: Clock, ready: asyncio.Event) -> None:
    await ready.wait()
    view.started(started)
    await PodBoard(view).run(client, clock)


async def _announce(node: Node, url: str, say: Say, ready: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_NODE_SECONDS):
            await node.until_ready()
    except TimeoutError:
        say(f"node {node.ground.name} is not ready yet")
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
