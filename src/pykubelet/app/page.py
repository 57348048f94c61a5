"""Composes the page: its listener, sessions, feed and the data of the node it shows."""

import asyncio
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pykubelet import __version__
from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import new_secret
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import Event, Pod
from pykubelet.api.pods import API_SOURCE, CONFIG_SOURCE, PodUid
from pykubelet.api.scheme import EVENTS, PODS
from pykubelet.api.serializer import Document, to_document
from pykubelet.app.node import Node
from pykubelet.app.program import Say
from pykubelet.app.settings import PageSettings
from pykubelet.client.interface import Reader, Selection
from pykubelet.client.reflector import ListerWatcher
from pykubelet.httpserver.response import HttpError
from pykubelet.kubelet.explain.explainer import explain_from_api
from pykubelet.kubelet.server.container_logs import ContainerLogs
from pykubelet.kubelet.server.routes import KubeletEndpoint, KubeletRoute
from pykubelet.kubelet.stats.summary import running_containers, total
from pykubelet.kubelet.types import PodWorkerState
from pykubelet.runtimes.protocol import RuntimeFailure
from pykubelet.web.access import LinkFile, Sessions
from pykubelet.web.feed import PageFeed
from pykubelet.web.node_view import (
    NodePod,
    PageLogOptions,
    PageObjectReader,
    PodUsageHistory,
    SourceState,
    SourceUnavailable,
    UsageReading,
    Write,
)
from pykubelet.web.object_pages import ObjectPages
from pykubelet.web.page import PageAddress, WebPage, listen, page_server
from pykubelet.web.pod_pages import PodPages
from pykubelet.web.rows import PodProgress, pod_key
from pykubelet.web.tables import ApiTables

log = get_logger(__name__)

LINK_FILE = "page-link"


class PageNodeState:
    """The pods of a node for the page; a `PageNode` and a `PageProbeHistory`."""

    def __init__(self, node: Node) -> None:
        self._node, self._known = node, node.pods
        # The UIDs of all shown pods, also of those that their source removed and only a worker still has.
        self._uids: dict[str, PodUid] = {}
        self._keys: dict[PodUid, str] = {}

    def keys(self) -> Iterable[str]:
        self._uids.clear()
        self._keys.clear()
        for uid, record in self._known.machine.records.items():
            if record.pod is not None and record.state < PodWorkerState.FINISHED:
                self._note(uid, record.pod)
        for pod in self._known.pods.pods():
            self._note(PodUid(pod.metadata.uid), pod)
        return tuple(self._uids)

    def key_of(self, uid: str) -> str | None:
        known = PodUid(uid)
        if known not in self._keys:
            record = self._known.machine.records.get(known)
            pod = self._known.pods.pod_by_uid(known) or (record.pod if record is not None else None)
            if pod is not None:
                self._note(known, pod)
        return self._keys.get(known)

    def pod(self, key: str) -> NodePod | None:
        namespace, _, name = key.partition("/")
        pod = self._known.pods.pod_by_name(namespace, name) or self._ending(key)
        if pod is None:
            return None
        uid = PodUid(pod.metadata.uid)
        return NodePod(pod, self._known.statuses.pod_status(uid) or pod.status, self._standing(uid, pod))

    def sources(self) -> tuple[SourceState, ...]:
        sources = self._node.sources
        return tuple(SourceState(name, sources.ready.is_ready(name)) for name in sources.config.sources())

    def findings(self, key: str) -> Iterable[Struct]:
        found = self.pod(key)
        return self._known.probes.counts.history.of_pod(PodUid(found.pod.metadata.uid)) if found is not None else ()

    def _note(self, uid: PodUid, pod: Pod) -> None:
        key = pod_key(pod.metadata.namespace, pod.metadata.name)
        self._keys[uid], self._uids[key] = key, uid

    def _ending(self, key: str) -> Pod | None:
        record = self._known.machine.records.get(self._uids.get(key, PodUid("")))
        return record.pod if record is not None and record.state < PodWorkerState.FINISHED else None

    def _standing(self, uid: PodUid, pod: Pod) -> PodProgress:
        record, waiting = self._known.machine.records.get(uid), self._node.dependencies.trail.waiting(uid)
        return PodProgress(
            source=pod.metadata.annotations.get(CONFIG_SOURCE, API_SOURCE),
            worker=record.state.name.lower() if record is not None else "",
            has_mirror=self._known.pods.mirror_pod_by_pod(pod) is not None,
            is_unsent=self._known.statuses.is_unsent(uid),
            waits=waiting[0].what if waiting else "",
        )


class PageExplanations:
    """Explains pods; those of other nodes from the API server. A `PageExplainer`."""

    def __init__(self, node: Node, shown: PageNodeState, api: Reader | None) -> None:
        self._explainer, self._shown, self._api = node.explainer(), shown, api
        self._clock: Clock = node.dependencies.clock

    async def explain(self, namespace: str, name: str) -> Document | None:
        if self._api is None or self._shown.pod(pod_key(namespace, name)) is not None:
            return self._explainer.explain(namespace, name)
        try:
            pod = await self._api.get(PODS, name, namespace=namespace)
        except ApiError:
            return None
        events = await self._events(self._api, pod)
        return to_document(explain_from_api(pod, events, node_problem="", now=self._clock.now()))

    @staticmethod
    async def _events(api: Reader, pod: Pod) -> tuple[Event, ...]:
        meta = pod.metadata
        about = Selection(fields=f"involvedObject.name={meta.name},involvedObject.uid={meta.uid}")
        try:
            return (await api.list(EVENTS, namespace=meta.namespace, selection=about)).items
        except ApiError:
            # Without permission to read events the pod's status remains.
            return ()


class PageLogs:
    """Follows the logs of this node's containers; a `PodLogs`."""

    def __init__(self, node: Node) -> None:
        known, ground = node.pods, node.dependencies
        self._logs = ContainerLogs(
            pods=known.pods,
            statuses=known.statuses,
            looks=node.pleg.cache,
            paths=ground.logs,
            clock=ground.clock,
        )

    async def open(self, options: PageLogOptions) -> Callable[[Write], Awaitable[None]]:
        query = [("follow", "true"), ("tailLines", str(options.tail_lines))]
        query += [("previous", "true")] if options.previous else []
        route = KubeletRoute(KubeletEndpoint.LOGS, options.namespace, options.pod, container=options.container)
        try:
            output = await self._logs.open(route, query)
        except HttpError as refused:
            raise SourceUnavailable(str(refused)) from refused

        async def copy(write: Write) -> None:
            await output.copy(write)

        return copy


class PagePodUsages:
    """The usage that the runtime measures for this node's pods; a `UsageSource`."""

    def __init__(self, node: Node) -> None:
        self._usages, self._cache = node.dependencies.runtime.usages, node.pleg.cache

    async def read(self) -> Mapping[str, UsageReading]:
        if self._usages is None:
            raise SourceUnavailable("the runtime of this node does not measure usage")
        try:
            usages = await self._usages.usages()
        except RuntimeFailure as failure:
            raise SourceUnavailable(failure.message) from failure
        found: dict[str, UsageReading] = {}
        for uid in self._cache:
            try:
                pod = self._cache.get(uid)
            except RuntimeFailure:
                # Skip a pod that cannot be inspected.
                continue
            if known := [usages[one.id] for one in running_containers(pod) if one.id in usages]:
                whole = total(known)
                memory = whole.working_set_bytes or whole.memory_bytes
                found[pod_key(pod.namespace, pod.name)] = UsageReading(whole.at, whole.cpu_nanoseconds, memory)
        return found


class PageClient(ListerWatcher, PageObjectReader, Protocol):
    """The part of a client that the page needs."""


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
        entrance = PageAddress(port, f"/view/{new_secret()}/", sessions, str(link.path), link.write)
        page, runners = _page(node, cluster, entrance)
        await stack.enter_async_context(running(runners))
        await stack.enter_async_context(page_server(page).serving(listener, None))
        stack.callback(link.remove)
        await link.write()
        say(f"page {link.url}")
        if settings.open_browser:
            await stack.enter_async_context(running({"browser": lambda: _open_browser(link.url)}))
        yield


def _page(node: Node, cluster: PageCluster, entrance: PageAddress) -> tuple[WebPage, dict[str, Runner]]:
    clock, client, name = node.dependencies.clock, cluster.client, node.dependencies.name
    tables = ApiTables(client=client, clock=clock, node_name="" if cluster.is_own else name)
    shown, measured = PageNodeState(node), PodUsageHistory(PagePodUsages(node))
    about = {"version": __version__, "node": name, "server": cluster.url, "isCluster": cluster.is_own}
    feed = PageFeed(node=shown, tables=tables, problems=node.sources.problems.all, about=about, clock=clock)
    node.dependencies.trail.on_news(feed.heard)
    pods = PodPages(
        node=shown,
        tables=tables,
        explanations=PageExplanations(node, shown, client),
        probes=shown,
        usage=measured,
        logs=PageLogs(node),
    )
    runners: dict[str, Runner] = {
        "page": with_ready_event(feed.run),
        "page's tables": lambda: tables.run(feed.is_read),
        "page's measures": lambda: measured.run(feed.is_read),
    }
    return WebPage(entrance=entrance, live=feed, pods=pods, objects=ObjectPages(client)), runners


async def _open_browser(url: str) -> None:
    if not await asyncio.to_thread(webbrowser.open, url):
        log.warning("browser not opened")
