"""The page put together: where it listens, who may see it, and what it shows."""

import asyncio
import webbrowser
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykubelet import __version__
from pykubelet.aio.ids import new_secret
from pykubelet.aio.log import get_logger
from pykubelet.app.node import Node
from pykubelet.app.page_sources import Explained, PodMeasures, ShownLogs, ShownPods
from pykubelet.app.program import Say
from pykubelet.app.running import Runner, running, with_event
from pykubelet.app.settings import PageSettings
from pykubelet.kube.reflector import ListerWatcher
from pykubelet.web.api_tables import ApiTables
from pykubelet.web.app import App, listen
from pykubelet.web.collaborators import Objects
from pykubelet.web.feed import Feed
from pykubelet.web.link_file import LinkFile
from pykubelet.web.measured import MeasuredPods
from pykubelet.web.object_pages import ObjectPages
from pykubelet.web.page import Entrance, Page
from pykubelet.web.pod_pages import PodPages
from pykubelet.web.sessions import Sessions

log = get_logger(__name__)

LINK_FILE = "page-link"


class PageClient(ListerWatcher, Objects, Protocol):
    """What the page reads of an API server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The API server around a node, if there is one, and whether the page may read all that is in it."""

    client: PageClient | None = None
    url: str = ""
    is_own: bool = False


@asynccontextmanager
async def open_page(
    settings: PageSettings, *, node: Node, cluster: Cluster, folder: Path, say: Say
) -> AsyncIterator[None]:
    """The page answers, for as long as the context lasts; its link is said, and kept in a file of the folder."""
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(listen(settings.port))
        port: int = listener.getsockname()[1]
        if settings.port not in (0, port):
            say(f"port {settings.port} is taken: the page is on {port}")
        sessions = Sessions(new_secret)
        link = LinkFile(folder / LINK_FILE, port, sessions)
        # Nobody knows it but who was let in: `web/guard.py` says what for.
        entrance = Entrance(port, f"/view/{new_secret()}/", sessions, str(link.path), link.write)
        page, runners = _page(node, cluster, entrance)
        await stack.enter_async_context(running(runners))
        await stack.enter_async_context(App(page).serving(listener))
        stack.callback(link.remove)
        await link.write()
        say(f"page {link.url}")
        if settings.open_browser:
            await stack.enter_async_context(running({"browser": lambda: _open_browser(link.url)}))
        yield


def _page(node: Node, cluster: Cluster, entrance: Entrance) -> tuple[Page, dict[str, Runner]]:
    clock, client, name = node.ground.clock, cluster.client, node.ground.name
    tables = ApiTables(client=client, clock=clock, node_name="" if cluster.is_own else name)
    shown, measured = ShownPods(node), MeasuredPods(PodMeasures(node))
    about = {"version": __version__, "node": name, "server": cluster.url, "isCluster": cluster.is_own}
    feed = Feed(node=shown, tables=tables, problems=node.sources.problems.all, about=about, clock=clock)
    node.pods.trail.on_news(feed.heard)
    pods = PodPages(
        node=shown,
        tables=tables,
        explanations=Explained(node, shown, client),
        probes=shown,
        usage=measured,
        logs=ShownLogs(node),
    )
    runners: dict[str, Runner] = {
        "page": with_event(feed.run),
        "page's tables": lambda: tables.run(feed.is_read),
        "page's measures": lambda: measured.run(feed.is_read),
    }
    return Page(entrance=entrance, live=feed, pods=pods, objects=ObjectPages(client)), runners


async def _open_browser(url: str) -> None:
    if not await asyncio.to_thread(webbrowser.open, url):
        log.warning("no browser could be opened")
