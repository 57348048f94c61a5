"""Composes the page: its listener, sessions, feed and the data of the node it shows."""

import asyncio
import webbrowser
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pykubelet import __version__
from pykubelet.aio.ids import new_secret
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.app.node import Node
from pykubelet.app.program import Say
from pykubelet.app.settings import PageSettings
from pykubelet.kubelet.node_view import ClusterPodExplainer, NodeView, follow_log, pod_usages
from pykubelet.kubelet.server.container_logs import ContainerLogs
from pykubelet.web.access import LinkFile, Sessions
from pykubelet.web.feed import PageFeed
from pykubelet.web.node_view import PageClient, PodUsageHistory
from pykubelet.web.object_pages import ObjectPages
from pykubelet.web.page import PageAddress, WebPage, listen, page_server
from pykubelet.web.pod_pages import PodPages
from pykubelet.web.tables import ApiTables

log = get_logger(__name__)

LINK_FILE = "page-link"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCluster:
    """The API server of a node, if it has one, and whether the page may read everything in it."""

    client: PageClient | None = None
    url: str = ""
    is_own: bool = False


@asynccontextmanager
async def open_page(
    settings: PageSettings, *, node: Node, cluster: PageCluster, folder: Path, say: Say
) -> AsyncIterator[None]:
    """Serve the page for the duration of the context; prints its link and writes it to a file in the folder."""
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(listen(settings.port))
        port: int = listener.getsockname()[1]
        if settings.port not in (0, port):
            say(f"port {settings.port} is taken: the page is on {port}")
        sessions = Sessions(new_secret)
        link = LinkFile(folder / LINK_FILE, port, sessions)
        # An unguessable prefix, known only to signed-in browsers: see `web/access.py`.
        address = PageAddress(port, f"/view/{new_secret()}/", sessions, str(link.path), link.write)
        page, runners = _page(node, cluster, address)
        await stack.enter_async_context(running(runners))
        await stack.enter_async_context(page_server(page).serving(listener, None))
        stack.callback(link.remove)
        await link.write()
        say(f"page {link.url}")
        if settings.open_browser:
            await stack.enter_async_context(running({"browser": partial(_open_browser, link.url)}))
        yield


def _page(node: Node, cluster: PageCluster, address: PageAddress) -> tuple[WebPage, dict[str, Runner]]:
    deps, clock, client = node.dependencies, node.dependencies.clock, cluster.client
    tables = ApiTables(client=client, clock=clock, node_name="" if cluster.is_own else deps.name)
    view = node_view(node)
    usage = PodUsageHistory(partial(pod_usages, deps.runtime.usages, node.pleg.cache))
    about = {"version": __version__, "node": deps.name, "server": cluster.url, "isCluster": cluster.is_own}
    feed = PageFeed(node=view, tables=tables, problems=node.sources.problems.all, about=about, clock=clock)
    deps.trail.on_news(feed.pod_changed)
    logs = ContainerLogs(
        pods=node.pods.pods, statuses=node.pods.statuses, cache=node.pleg.cache, paths=deps.logs, clock=clock
    )
    explainer = ClusterPodExplainer(explainer=node.explainer(), view=view, api=client, clock=clock)
    pods = PodPages(
        node=view, tables=tables, explain=explainer.explain, usage=usage, open_log=partial(follow_log, logs)
    )
    runners: dict[str, Runner] = {
        "page": with_ready_event(feed.run),
        "page's tables": partial(tables.run, feed.is_read),
        "page's measures": partial(usage.run, feed.is_read),
    }
    return WebPage(entrance=address, live=feed, pods=pods, objects=ObjectPages(client)), runners


def node_view(node: Node) -> NodeView:
    """The view of a node's pods for its page."""
    return NodeView(
        pods=node.pods.pods,
        states=node.pods.machine,
        statuses=node.pods.statuses,
        probes=node.pods.probes,
        trail=node.dependencies.trail,
        config=node.sources.config,
        ready=node.sources.ready,
    )


async def _open_browser(url: str) -> None:
    if not await asyncio.to_thread(webbrowser.open, url):
        log.warning("browser not opened")
