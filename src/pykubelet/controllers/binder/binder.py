"""The binder: takes pods that have no node, one by one, and binds each to the best there is.

In: changes of pods, nodes and namespaces, told by informers. Out: Bindings, and for pods that fit nowhere the condition
PodScheduled with the reason; both told as events. Between a decision and the moment a pod is counted nothing waits, so
workers side by side never give the same room twice. Upstream: pkg/scheduler/schedule_one.go, eventhandlers.go.
"""

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Binding, Namespace, Node, ObjectReference, Pod, PodCondition
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import is_terminal, pod_label
from pykubelet.api.typed import NAMESPACES, NODES, POD_BINDINGS, PODS
from pykubelet.controllers.binder.cluster_view import ClusterView
from pykubelet.controllers.binder.decision import Refused, decide
from pykubelet.controllers.binder.filters import Help
from pykubelet.controllers.binder.pending_pods import PendingPods
from pykubelet.controllers.binder.pod_facts import facts_of
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.pod_index import PodIndex
from pykubelet.controllers.pod_status_patch import condition_patch
from pykubelet.kube.client import Writer
from pykubelet.kube.recorder import NORMAL, WARNING, EventRecorder, reference_to

log = get_logger(__name__)

SCHEDULER_NAME = "default-scheduler"
"""Whose pods these are, and who tells the events."""
_MAX_NOTE = 1024


class Binder:
    """Schedules pods. Changes only note what was seen; `process_next` acts."""

    def __init__(self, *, client: Writer, recorder: EventRecorder, pods: PodIndex, clock: Clock) -> None:
        """The recorder is that of SCHEDULER_NAME, the index that of the informers."""
        self._client, self._recorder, self._pods, self._clock = client, recorder, pods, clock
        self._view = ClusterView()
        self._pending = PendingPods(clock)
        self._bound: set[str] = set()

    def listen(self, informers: Informers) -> None:
        """Hear of all that matters."""
        informers.tell(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)
        informers.tell(NODES, added=self.node_added, updated=self.node_updated, deleted=self.node_deleted)
        informers.tell(
            NAMESPACES,
            added=self.namespace_added,
            updated=lambda _, new: self.namespace_added(new),
            deleted=lambda old: self._view.drop_namespace(old.metadata.name),
        )

    def pod_added(self, pod: Pod) -> None:
        """A pod is new to us."""
        if pod.spec.node_name:
            self._placed(pod, Help.POD_CAME)
        elif is_schedulable(pod):
            self._pending.add(pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """A pod has changed, or another one has taken its name."""
        if old.metadata.uid != new.metadata.uid:
            self.pod_deleted(old)
            self.pod_added(new)
        elif new.spec.node_name:
            self._pending.forget(pod_label(new))
            # One that was there before may ask for less now, or be left out of what others count.
            self._placed(new, *((Help.POD_CAME, Help.POD_GONE) if old.spec.node_name else (Help.POD_CAME,)))
        elif not is_schedulable(new):
            self._pending.forget(pod_label(new))
            self._gone(new.metadata.uid)
        elif (old.spec, old.metadata.labels) != (new.spec, new.metadata.labels):
            # Not for a new status: that is our own message, as a rule.
            self._pending.add(new)

    def pod_deleted(self, pod: Pod) -> None:
        """A pod is gone, and what it took is free."""
        self._pending.forget(pod_label(pod))
        self._gone(pod.metadata.uid)

    def node_added(self, node: Node) -> None:
        """A node is new to us."""
        self._view.put_node(node)
        self._pending.helped(Help.NODE)

    def node_updated(self, old: Node, new: Node) -> None:
        """A node has changed; heartbeats help nobody."""
        self._view.put_node(new)
        if _place(old) != _place(new):
            self._pending.helped(Help.NODE)

    def node_deleted(self, node: Node) -> None:
        """A node is gone, which makes the pods on the others more evenly spread."""
        self._view.drop_node(node.metadata.name)
        self._pending.helped(Help.NODE)

    def namespace_added(self, namespace: Namespace) -> None:
        """A namespace is new, or its labels have changed: affinities may select pods by them."""
        self._view.put_namespace(namespace.metadata.name, namespace.metadata.labels)
        self._pending.helped(Help.POD_CAME)

    async def process_next(self) -> None:
        """Wait for a pod that has no node, and find it one."""
        key = await self._pending.get()
        pod = self._pods.get(key)
        try:
            if pod is not None and is_schedulable(pod) and pod.metadata.uid not in self._bound:
                await self._try(pod)
        finally:
            self._pending.done(key)

    async def _try(self, pod: Pod) -> None:
        try:
            await self._schedule(pod)
        except Exception as error:  # noqa: BLE001  whatever went wrong with one pod, the others need their nodes
            log.error("a pod could not be scheduled", error=error, pod=pod_label(pod))
            self._pending.retry(pod)

    async def _schedule(self, pod: Pod) -> None:
        # What an earlier try assumed, whose Binding may have been lost.
        self._gone(pod.metadata.uid)
        decision = decide(facts_of(pod), self._view)
        if isinstance(decision, Refused):
            self._pending.park(pod, decision.help)
            self._tell_failure(pod, decision.message)
            await self._write_reason(pod, decision.message)
            return
        self._view.put_pod(pod, decision)
        try:
            await self._bind(pod, decision)
        except NotFound:
            self._gone(pod.metadata.uid)
        except ApiError as error:
            # It may be bound all the same: it still counts, and its condition is left to those who know.
            self._pending.retry(pod)
            self._tell_failure(pod, f'running Bind plugin "DefaultBinder": {error}')

    async def _bind(self, pod: Pod, node_name: str) -> None:
        meta = pod.metadata
        binding = Binding(
            metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
            target=ObjectReference(kind="Node", name=node_name),
        )
        await self._client.create(POD_BINDINGS, binding, namespace=meta.namespace, name=meta.name)
        if not self._is_seen(pod):
            self._bound.add(meta.uid)
        message = f"Successfully assigned {pod_label(pod)} to {node_name}"
        self._recorder.event(reference_to(pod), NORMAL, "Scheduled", message)

    def _tell_failure(self, pod: Pod, message: str) -> None:
        note = message if len(message) <= _MAX_NOTE else f"{message[: _MAX_NOTE - 4]} ..."
        self._recorder.event(reference_to(pod), WARNING, "FailedScheduling", note)

    async def _write_reason(self, pod: Pod, message: str) -> None:
        """As a condition; if it cannot be written, the next try writes it."""
        condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
        patch = condition_patch(pod, condition, self._clock.now())
        if patch is None:
            return
        meta = pod.metadata
        try:
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
        except NotFound:
            log.debug("pod is gone before its condition was written", pod=pod_label(pod))
        except ApiError as error:
            log.warning("condition not written", pod=pod_label(pod), cause=str(error))

    def _placed(self, pod: Pod, *helps: Help) -> None:
        """A pod is on a node; if that is news, it helps so."""
        self._bound.discard(pod.metadata.uid)
        if is_terminal(pod.status.phase):
            self._gone(pod.metadata.uid)
        elif self._view.put_pod(pod):
            for help_ in helps:
                self._pending.helped(help_)

    def _gone(self, uid: str) -> None:
        self._bound.discard(uid)
        if self._view.drop_pod(uid):
            self._pending.helped(Help.POD_GONE)

    def _is_seen(self, pod: Pod) -> bool:
        """Whether the informer has told of the binding already."""
        newest = self._pods.get(pod_label(pod))
        return newest is None or newest.metadata.uid != pod.metadata.uid or bool(newest.spec.node_name)


def is_schedulable(pod: Pod) -> bool:
    """Whether a pod waits for this scheduler to give it a node."""
    if pod.spec.scheduler_name != SCHEDULER_NAME or pod.spec.scheduling_gates:
        return False
    is_leaving = pod.metadata.deletion_timestamp is not None or is_terminal(pod.status.phase)
    return not pod.spec.node_name and not is_leaving


def _place(node: Node) -> tuple[object, ...]:
    """What of a node decides who fits there."""
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable, node.status.allocatable
