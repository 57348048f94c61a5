"""The kubelet's data for its page: pods and their progress, explanations, followed logs, usage."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import Event, Pod
from pykubelet.api.pods import API_SOURCE, CONFIG_SOURCE, PodUid
from pykubelet.api.scheme import EVENTS, PODS
from pykubelet.api.serializer import Document, to_document
from pykubelet.client.interface import Reader, Selection
from pykubelet.client.node_view import NodePod, PodProgress, SourceState, UsageReading, pod_key
from pykubelet.httpserver.response import HttpStream
from pykubelet.kubelet.config.config import PodConfig, SourcesReady
from pykubelet.kubelet.explain.explainer import PodExplainer, explain_from_api
from pykubelet.kubelet.explain.trail import PodTrails
from pykubelet.kubelet.pleg.pleg import PodCache
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.pod_workers.state import PodStateMachine
from pykubelet.kubelet.prober.prober_manager import ProberManager
from pykubelet.kubelet.server.container_logs import ContainerLogs
from pykubelet.kubelet.server.routes import KubeletEndpoint, KubeletRoute
from pykubelet.kubelet.stats.summary import running_containers, total
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import PodWorkerState
from pykubelet.runtimes.protocol import RuntimeFailure, Usages

_TAIL_LINES = 500
"""How much of a log's past the page shows."""


class NodeView:
    """The pods of the node by key, also those that only a worker still has."""

    def __init__(
        self,
        *,
        pods: PodManager,
        states: PodStateMachine,
        statuses: StatusManager,
        probes: ProberManager,
        trail: PodTrails,
        config: PodConfig,
        ready: SourcesReady,
    ) -> None:
        self._pods, self._states, self._statuses = pods, states, statuses
        self._probes, self._trail, self._config, self._ready = probes, trail, config, ready
        self._uids: dict[str, PodUid] = {}
        self._keys: dict[PodUid, str] = {}

    def keys(self) -> Iterable[str]:
        """The keys of all pods, as `namespace/name`."""
        self._uids.clear()
        self._keys.clear()
        for uid, record in self._states.records.items():
            if record.pod is not None and record.state < PodWorkerState.FINISHED:
                self._remember(uid, record.pod)
        for pod in self._pods.pods():
            self._remember(PodUid(pod.metadata.uid), pod)
        return tuple(self._uids)

    def key_of(self, uid: str) -> str | None:
        """The key of the pod with this UID; None if it is unknown."""
        known = PodUid(uid)
        if known not in self._keys:
            record = self._states.records.get(known)
            pod = self._pods.pod_by_uid(known) or (record.pod if record is not None else None)
            if pod is not None:
                self._remember(known, pod)
        return self._keys.get(known)

    def pod(self, key: str) -> NodePod | None:
        """A pod of this node; None if it is not on this node."""
        namespace, _, name = key.partition("/")
        pod = self._pods.pod_by_name(namespace, name) or self._terminating(key)
        if pod is None:
            return None
        uid = PodUid(pod.metadata.uid)
        return NodePod(pod, self._statuses.pod_status(uid) or pod.status, self._progress(uid, pod))

    def sources(self) -> tuple[SourceState, ...]:
        """The sources of pods and whether each has delivered all its pods."""
        return tuple(SourceState(name, self._ready.is_ready(name)) for name in self._config.sources())

    def probe_results(self, key: str) -> Iterable[Struct]:
        """The last results of each probe of a pod."""
        found = self.pod(key)
        return self._probes.counts.history.of_pod(PodUid(found.pod.metadata.uid)) if found is not None else ()

    def _remember(self, uid: PodUid, pod: Pod) -> None:
        key = pod_key(pod.metadata.namespace, pod.metadata.name)
        self._keys[uid], self._uids[key] = key, uid

    def _terminating(self, key: str) -> Pod | None:
        """A pod that its source has removed and whose worker has not finished."""
        record = self._states.records.get(self._uids.get(key, PodUid("")))
        return record.pod if record is not None and record.state < PodWorkerState.FINISHED else None

    def _progress(self, uid: PodUid, pod: Pod) -> PodProgress:
        record, waiting = self._states.records.get(uid), self._trail.waiting(uid)
        return PodProgress(
            source=pod.metadata.annotations.get(CONFIG_SOURCE, API_SOURCE),
            worker=record.state.name.lower() if record is not None else "",
            has_mirror=self._pods.mirror_pod_by_pod(pod) is not None,
            is_unsent=self._statuses.is_unsent(uid),
            waits=waiting[0].what if waiting else "",
        )


class ClusterPodExplainer:
    """Explains the pods of this node, and those of other nodes from the API server."""

    def __init__(self, *, explainer: PodExplainer, view: NodeView, api: Reader | None, clock: Clock) -> None:
        self._explainer, self._view, self._api, self._clock = explainer, view, api, clock

    async def explain(self, namespace: str, name: str) -> Document | None:
        """The decisions about a pod and what it waits for; None if there is no such pod."""
        if self._api is None or self._view.pod(pod_key(namespace, name)) is not None:
            return self._explainer.explain(namespace, name)
        try:
            pod = await self._api.get(PODS, name, namespace=namespace)
        except ApiError:
            return None
        events = await _events_of(self._api, pod)
        return to_document(explain_from_api(pod, events, node_problem="", now=self._clock.now()))


async def _events_of(api: Reader, pod: Pod) -> tuple[Event, ...]:
    meta = pod.metadata
    selection = Selection(fields=f"involvedObject.name={meta.name},involvedObject.uid={meta.uid}")
    try:
        return (await api.list(EVENTS, namespace=meta.namespace, selection=selection)).items
    except ApiError:
        # Without permission to read events the pod's status remains.
        return ()


async def follow_log(logs: ContainerLogs, namespace: str, pod: str, container: str, *, previous: bool) -> HttpStream:
    """The end of a container's log, followed; HttpError if there is none."""
    query = [("follow", "true"), ("tailLines", str(_TAIL_LINES))]
    query += [("previous", "true")] if previous else []
    return await logs.open(KubeletRoute(KubeletEndpoint.LOGS, namespace, pod, container=container), query)


async def pod_usages(usages: Usages | None, cache: PodCache) -> Mapping[str, UsageReading]:
    """The usage of every running pod by key; nothing if the runtime cannot measure it."""
    if usages is None:
        return {}
    try:
        measured = await usages.usages()
    except RuntimeFailure:
        # The charts stay empty; the node's condition says why.
        return {}
    found: dict[str, UsageReading] = {}
    for uid in cache:
        try:
            pod = cache.get(uid)
        except RuntimeFailure:
            # Skip a pod that cannot be inspected.
            continue
        if known := [measured[one.id] for one in running_containers(pod) if one.id in measured]:
            whole = total(known)
            memory = whole.working_set_bytes or whole.memory_bytes
            found[pod_key(pod.namespace, pod.name)] = UsageReading(whole.at, whole.cpu_nanoseconds, memory)
    return found
