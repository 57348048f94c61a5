"""Explains what a pod waits for, from the node's own knowledge or from the API server alone.

An explanation reads the records of all workers, so it costs a little for each pod of the node; people ask, not
programs. Upstream has nothing like it.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Event, Node, Pod
from pykubelet.api.pods import PodUid, full_name, is_static_pod, pod_full_name
from pykubelet.api.serializer import Document, to_document
from pykubelet.api.times import parse_time
from pykubelet.kubelet.config.config import SourceProblemReporter
from pykubelet.kubelet.explain.explanation import Blocked, BlockingStep, Explanation, PodSituation
from pykubelet.kubelet.explain.terminating import blocked_by_finalizers
from pykubelet.kubelet.explain.trail import EVENTS, PodTrails, TrailEntry, event_facts
from pykubelet.kubelet.explain.waiting import waiting_for
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import PodWorkerState
from pykubelet.runtimes.limits import ALL_ENFORCED, UnenforcedLimits

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def explain_from_api(pod: Pod, events: Iterable[Event], *, node_problem: str, now: datetime) -> Explanation:
    """Explain a pod without asking its node: it has none, or the node does not answer."""
    entries = event_trail(events)
    seen = PodSituation(
        pod=pod, status=pod.status, now=now, entries=entries, is_from_node=False, node_problem=node_problem
    )
    meta = pod.metadata
    return Explanation(
        meta.namespace,
        meta.name,
        waiting_for(seen),
        uid=meta.uid,
        phase=pod.status.phase,
        node=pod.spec.node_name,
        trail=entries,
    )


def with_api_finalizers(explanation: Explanation, pod: Pod) -> Explanation:
    """A node's explanation with the pod's current finalizers, which only the API knows."""
    if explanation.waits_for.step is not BlockingStep.FINALIZER:
        return explanation
    return replace(explanation, waits_for=blocked_by_finalizers(pod))


def event_trail(events: Iterable[Event]) -> tuple[TrailEntry, ...]:
    """Events as trail entries, the newest last."""
    entries = [_entry(event) for event in events]
    return tuple(sorted(entries, key=lambda entry: entry.last_at or entry.at))


def node_problem(node: Node | None) -> str:
    """Why a node cannot do anything; empty if it seems well."""
    if node is None:
        return "there is no such node"
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    if ready is not None and ready.status == "True":
        return ""
    return f"it is not ready: {ready.reason}: {ready.message}" if ready is not None else "it has never been ready"


def _entry(event: Event) -> TrailEntry:
    times = [
        parse_time(text)
        for text in (
            event.first_timestamp,
            event.event_time,
            event.last_timestamp,
            event.series.last_observed_time if event.series is not None else None,
        )
        if text
    ] or [_LONG_AGO]
    count = event.series.count if event.series is not None else event.count
    first, last = min(times), max(times)
    facts = tuple(event_facts(event.involved_object, event.message).items())
    return TrailEntry(first, EVENTS, event.reason, facts, max(count, 1), last if last != first else None)


class ExplainedWorkers(Protocol):
    """The record of a pod's worker; PodSyncStatus, which is above this package."""

    @property
    def state(self) -> PodWorkerState:
        """The state of the pod's worker."""

    @property
    def pod(self) -> Pod | None:
        """The pod; None if only the runtime knows it."""


class PodExplainer:
    """Explains the pods of one node."""

    def __init__(
        self,
        *,
        node_name: str,
        pods: PodManager,
        records: Mapping[PodUid, ExplainedWorkers],
        statuses: StatusManager,
        trail: PodTrails,
        problems: SourceProblemReporter,
        clock: Clock,
        unenforced: UnenforcedLimits = ALL_ENFORCED,
    ) -> None:
        self._unenforced = unenforced
        self._node_name, self._pods, self._records, self._statuses = node_name, pods, records, statuses
        self._trail, self._problems, self._clock = trail, problems, clock

    def explain(self, namespace: str, name: str) -> Document | None:
        """The Explanation of a pod as a document; None if it is unknown. A static pod may have its manifest's name."""
        for known in (name, f"{name}-{self._node_name.lower()}"):
            pod = self._pods.pod_by_name(namespace, known) or self._ending(full_name(known, namespace))
            if pod is not None:
                return to_document(self._explained(pod))
        problems = "; ".join(f"{one.where}: {one.message}" for one in self._problems.all())
        if not problems:
            return None
        broken = Blocked(
            BlockingStep.MANIFEST,
            f"no such pod is known; it may be in an invalid manifest: {problems}",
            "correct the manifest; it is read again as soon as it changes",
        )
        return to_document(Explanation(namespace, name, broken, node=self._node_name, told_by=self._node_name))

    def _explained(self, pod: Pod) -> Explanation:
        uid = PodUid(pod.metadata.uid)
        seen = self._situation(pod, holder=self._holder(pod))
        return Explanation(
            pod.metadata.namespace,
            pod.metadata.name,
            waiting_for(seen),
            uid=uid,
            phase=seen.status.phase,
            node=self._node_name,
            told_by=self._node_name,
            trail=seen.entries,
            left_out=self._trail.left_out(uid),
            note=self._unenforced.message(pod),
        )

    def _situation(self, pod: Pod, holder: PodSituation | None = None) -> PodSituation:
        uid = PodUid(pod.metadata.uid)
        record = self._records.get(uid)
        return PodSituation(
            pod=pod,
            status=self._statuses.pod_status(uid) or pod.status,
            now=self._clock.now(),
            entries=self._trail.entries(uid),
            waiting=self._trail.waiting(uid),
            worker=record.state if record is not None else None,
            holder=holder,
        )

    def _holder(self, pod: Pod) -> PodSituation | None:
        """The static pod of the same name that has not ended yet."""
        former = self._ending(pod_full_name(pod)) if is_static_pod(pod) else None
        return self._situation(former) if former is not None and former is not pod else None

    def _ending(self, name: str) -> Pod | None:
        """A terminating pod of this name, which its source may no longer name."""
        for record in self._records.values():
            pod = record.pod
            if (
                pod is not None
                and PodWorkerState.SYNC < record.state < PodWorkerState.FINISHED
                and pod_full_name(pod) == name
            ):
                return pod
        return None
