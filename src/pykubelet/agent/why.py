"""Explains the pods of a node: finds everything that is known of one and has it judged.

In: a name, from whoever asks the node's API. Out: an `Explanation`. Looks through the workers, so it costs a little for each
pod of the node; people ask, not programs. Upstream has nothing like it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from pykubelet.agent.explanation import Blocked, Explanation, Situation, Step
from pykubelet.agent.flow import WorkerState
from pykubelet.agent.trail import PodTrails
from pykubelet.agent.waiting_for import waiting_for
from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.keys import PodUid, full_name
from pykubelet.api.pods import is_static_pod, pod_full_name
from pykubelet.api.wire import Document, to_document


class Pods(Protocol):
    """The pods this node should run; a PodManager."""

    def pod_by_name(self, namespace: str, name: str) -> Pod | None:
        """The regular pod of this name."""


class Statuses(Protocol):
    """What the node says about its pods; a StatusManager."""

    def pod_status(self, uid: str) -> PodStatus | None:
        """The newest status of a pod."""


class WorkerRecord(Protocol):
    """What is known of the worker of a pod."""

    @property
    def state(self) -> WorkerState:
        """Where it is."""

    @property
    def pod(self) -> Pod | None:
        """The pod, unless only the runtime knows it."""


class SourceProblem(Protocol):
    """What is wrong with a manifest."""

    @property
    def where(self) -> str:
        """Which."""

    @property
    def message(self) -> str:
        """What."""


class PodExplainer:
    """Answers why a pod is where it is."""

    def __init__(
        self,
        *,
        node_name: str,
        pods: Pods,
        records: Mapping[PodUid, WorkerRecord],
        statuses: Statuses,
        trail: PodTrails,
        problems: Callable[[], Iterable[SourceProblem]],
        clock: Clock,
    ) -> None:
        self._node_name, self._pods, self._records, self._statuses = node_name, pods, records, statuses
        self._trail, self._problems, self._clock = trail, problems, clock

    def explain(self, namespace: str, name: str) -> Document | None:
        """The document of an Explanation; None if the node has nothing to say about such a pod.

        A static pod may be called as its manifest calls it.
        """
        for known in (name, f"{name}-{self._node_name.lower()}"):
            pod = self._pods.pod_by_name(namespace, known) or self._ending(full_name(known, namespace))
            if pod is not None:
                return to_document(self._explained(pod))
        problems = "; ".join(f"{one.where}: {one.message}" for one in self._problems())
        if not problems:
            return None
        broken = Blocked(
            Step.MANIFEST,
            f"nobody knows such a pod; it may be in a manifest that makes no sense: {problems}",
            "mend the manifest; it is looked at as soon as it changes",
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
        )

    def _situation(self, pod: Pod, holder: Situation | None = None) -> Situation:
        uid = PodUid(pod.metadata.uid)
        record = self._records.get(uid)
        return Situation(
            pod=pod,
            status=self._statuses.pod_status(uid) or pod.status,
            now=self._clock.now(),
            entries=self._trail.entries(uid),
            waiting=self._trail.waiting(uid),
            worker=record.state if record is not None else None,
            holder=holder,
        )

    def _holder(self, pod: Pod) -> Situation | None:
        """The static pod of the same name that has not ended yet."""
        former = self._ending(pod_full_name(pod)) if is_static_pod(pod) else None
        return self._situation(former) if former is not None and former is not pod else None

    def _ending(self, name: str) -> Pod | None:
        """A pod of this name that ends; its source may not name it any more."""
        for record in self._records.values():
            pod = record.pod
            if (
                pod is not None
                and WorkerState.SYNC < record.state < WorkerState.FINISHED
                and pod_full_name(pod) == name
            ):
                return pod
        return None
