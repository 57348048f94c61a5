"""The taint eviction controller: deletes pods from nodes whose NoExecute taints they do not tolerate.

A pod with tolerationSeconds is deleted when they have passed. Deleted pods get the condition DisruptionTarget.

Upstream: pkg/controller/tainteviction/taint_eviction.go
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import Node, Pod, PodCondition, Taint, Toleration
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.pods import condition_patch, pod_label
from pykubelet.api.scheduling import is_tolerated
from pykubelet.api.scheme import NODES, PODS
from pykubelet.client.indexer import PodIndex
from pykubelet.client.informers import Informers, PodsByNode
from pykubelet.client.interface import Writer
from pykubelet.client.recorder import NORMAL, EventRecorder, reference_to
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue

SOURCE = "taint-eviction-controller"
_REASON = "TaintManagerEviction"
# Timers may fire early by the resolution of the event loop's clock.
_EARLY_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class _Eviction:
    """When a pod must be deleted."""

    uid: str
    at: float
    is_recorded: bool = False


class TaintEvictionController(KeyedController):
    """Deletes pods when their time on a tainted node has expired."""

    def __init__(
        self, *, client: Writer, recorder: EventRecorder, pods: PodIndex, pods_by_node: PodsByNode, clock: Clock
    ) -> None:
        """`recorder` records as SOURCE; `pods` is the informers' index."""
        self._client, self._recorder, self._clock = client, recorder, clock
        self._pods, self._pods_by_node = pods, pods_by_node
        self._nodes: dict[str, Node] = {}
        self._evictions: dict[str, _Eviction] = {}
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        """Subscribes to changes of nodes and pods; call it after `pods_by_node.listen`."""
        informers.add_event_handler(NODES, added=self.node_added, updated=self.node_updated, deleted=self.node_deleted)
        informers.add_event_handler(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)

    def node_added(self, node: Node) -> None:
        """Schedules evictions on a new node, whose pods may have been seen before it."""
        self._nodes[node.metadata.name] = node
        if evicting_taints(node):
            self._schedule_all(node.metadata.name)

    def node_updated(self, old: Node, new: Node) -> None:
        """Reschedules evictions if the NoExecute taints have changed."""
        self._nodes[new.metadata.name] = new
        if evicting_taints(old) != evicting_taints(new):
            self._schedule_all(new.metadata.name)

    def node_deleted(self, node: Node) -> None:
        """Removes a node; evictions already due continue, and the pod garbage collector deletes the rest."""
        self._nodes.pop(node.metadata.name, None)

    def pod_added(self, pod: Pod) -> None:
        if pod.spec.node_name in self._nodes:
            self._schedule(pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Reschedules the eviction if node or tolerations have changed."""
        if old.metadata.uid != new.metadata.uid:
            self.pod_deleted(old)
            self.pod_added(new)
        elif (old.spec.node_name, old.spec.tolerations) != (new.spec.node_name, new.spec.tolerations):
            self.pod_added(new)

    def pod_deleted(self, pod: Pod) -> None:
        self._evictions.pop(pod_label(pod), None)

    async def sync(self, key: str) -> None:
        """Deletes a pod if its time has expired. Conflict if its name was reused, which the retry notices."""
        eviction, pod = self._evictions.get(key), self._pods.get(key)
        if eviction is None or pod is None or pod.metadata.uid != eviction.uid:
            return
        left = eviction.at - self._clock.monotonic()
        if left > _EARLY_SECONDS:
            self.queue.add_after(key, left)
            return
        if not eviction.is_recorded:
            self._evictions[key] = _Eviction(eviction.uid, eviction.at, is_recorded=True)
            self._recorder.event(reference_to(pod), NORMAL, _REASON, f"Marking for deletion Pod {key}")
        with suppress(NotFound):
            await self._delete(pod)

    async def _delete(self, pod: Pod) -> None:
        meta = pod.metadata
        condition = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason="DeletionByTaintManager",
            message="Taint manager: deleting due to NoExecute taint",
        )
        patch = condition_patch(pod, condition, self._clock.now())
        if patch is not None:
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
        options = DeleteOptions(preconditions=Preconditions(uid=meta.uid))
        await self._client.delete(PODS, meta.name, namespace=meta.namespace, options=options)

    def _schedule_all(self, node_name: str) -> None:
        for pod in self._pods_by_node.on(node_name):
            self._schedule(pod)

    def _schedule(self, pod: Pod) -> None:
        """Schedules a pod's eviction; an existing time is kept unless the pod may stay forever or must go now."""
        key, taints = pod_label(pod), evicting_taints(self._nodes[pod.spec.node_name])
        seconds, planned = seconds_to_stay(pod.spec.tolerations, taints), self._evictions.get(key)
        if planned is not None and planned.is_recorded:
            return
        if seconds == math.inf:
            if self._evictions.pop(key, None) is not None:
                self._recorder.event(reference_to(pod), NORMAL, _REASON, f"Cancelling deletion of Pod {key}")
        elif planned is None or seconds <= 0:
            self._evictions[key] = _Eviction(pod.metadata.uid, self._clock.monotonic() + seconds)
            self.queue.add_after(key, seconds)


def evicting_taints(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.effect == "NoExecute")


def seconds_to_stay(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> float:
    """How long the pod tolerates the taints; infinite if forever.

    The first matching toleration of each taint counts; the shortest time of all taints wins.
    """
    longest = math.inf
    for taint in taints:
        used = next((each for each in tolerations if is_tolerated(taint, (each,))), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            longest = min(longest, max(float(used.toleration_seconds), 0.0))
    return longest
