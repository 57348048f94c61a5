"""What the page shows, taken from the stations of a node: each class is one of the page's Protocols."""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from msgspec import Struct

from pykubelet.agent.api_situation import explain_from_api
from pykubelet.agent.flow import WorkerState
from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import Event, Pod
from pykubelet.api.keys import PodUid
from pykubelet.api.pods import API_SOURCE, CONFIG_SOURCE
from pykubelet.api.typed import EVENTS, PODS
from pykubelet.api.wire import Document, to_document
from pykubelet.app.node import Node
from pykubelet.kube.client import Reader, Selection
from pykubelet.nodeapi.logs import Logs
from pykubelet.nodeapi.replies import Refused
from pykubelet.nodeapi.routes import Page, Route
from pykubelet.nodeapi.stats.summary import running_containers, total
from pykubelet.runtime.protocol import RuntimeFailure
from pykubelet.web.collaborators import LogOptions, NodePod, SourceState, Unavailable, Write
from pykubelet.web.pod_row import Standing, pod_key
from pykubelet.web.usage_history import Reading


class ShownPods:
    """The pods of a node; a `NodeView`, and `Probes`."""

    def __init__(self, node: Node) -> None:
        self._node, self._known = node, node.pods
        # Of a pod that its source does not name any more, and of which only the worker is left, this tells the UID.
        self._uids: dict[str, PodUid] = {}
        self._keys: dict[PodUid, str] = {}

    def keys(self) -> Iterable[str]:
        self._uids.clear()
        self._keys.clear()
        for uid, record in self._known.machine.records.items():
            if record.pod is not None and record.state < WorkerState.FINISHED:
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
        return record.pod if record is not None and record.state < WorkerState.FINISHED else None

    def _standing(self, uid: PodUid, pod: Pod) -> Standing:
        record, waiting = self._known.machine.records.get(uid), self._known.trail.waiting(uid)
        return Standing(
            source=pod.metadata.annotations.get(CONFIG_SOURCE, API_SOURCE),
            worker=record.state.name.lower() if record is not None else "",
            has_mirror=self._known.pods.mirror_pod_by_pod(pod) is not None,
            is_unsent=self._known.statuses.is_unsent(uid),
            waits=waiting[0].what if waiting else "",
        )


class Explained:
    """Why pods are where they are; the API server tells of those that are not here. `Explanations`."""

    def __init__(self, node: Node, shown: ShownPods, api: Reader | None) -> None:
        self._explainer, self._shown, self._api = node.explainer(), shown, api
        self._clock: Clock = node.ground.clock

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
            # Without the right to read events there is still the pod's own status.
            return ()


class ShownLogs:
    """The logs of this node's containers, followed. `Logs`."""

    def __init__(self, node: Node) -> None:
        known, ground = node.pods, node.ground
        self._logs = Logs(
            pods=known.pods,
            statuses=known.statuses,
            looks=node.watchdog.cache,
            paths=ground.logs,
            clock=ground.clock,
        )

    async def open(self, options: LogOptions) -> Callable[[Write], Awaitable[None]]:
        query = [("follow", "true"), ("tailLines", str(options.tail_lines))]
        query += [("previous", "true")] if options.previous else []
        route = Route(Page.LOGS, options.namespace, options.pod, container=options.container)
        try:
            output = await self._logs.open(route, query)
        except Refused as refused:
            raise Unavailable(str(refused)) from refused

        async def copy(write: Write) -> None:
            await output.copy(write)

        return copy


class PodMeasures:
    """What the runtime measures of this node's pods. `Measures`."""

    def __init__(self, node: Node) -> None:
        self._usages, self._cache = node.ground.runtime.usages, node.watchdog.cache

    async def read(self) -> Mapping[str, Reading]:
        if self._usages is None:
            raise Unavailable("the runtime of this node does not measure")
        try:
            usages = await self._usages.usages()
        except RuntimeFailure as failure:
            raise Unavailable(failure.message) from failure
        found: dict[str, Reading] = {}
        for uid in self._cache:
            try:
                pod = self._cache.get(uid)
            except RuntimeFailure:
                # The pod cannot be looked at; the others can.
                continue
            if known := [usages[one.id] for one in running_containers(pod) if one.id in usages]:
                whole = total(known)
                memory = whole.working_set_bytes or whole.memory_bytes
                found[pod_key(pod.namespace, pod.name)] = Reading(whole.at, whole.cpu_nanoseconds, memory)
        return found
