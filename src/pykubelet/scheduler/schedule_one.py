"""The binder: takes pods that have no node, one by one, and binds each to the best there is.

In: changes of pods, nodes and namespaces, told by informers. Out: Bindings, and for pods that fit nowhere the condition
PodScheduled with the reason; both told as events. Between a decision and the moment a pod is counted nothing waits, so
workers side by side never give the same room twice. Upstream: pkg/scheduler/schedule_one.go, eventhandlers.go.

Which node a pod goes to; if none, what to tell its owner and what to wait for.

Pure. The messages are upstream's. It also says what preemption could do; nothing is preempted here, so where a pod of
lower priority is in the way that is what it says. Upstream: schedule_one.go and framework/types.go (FitError) in
pkg/scheduler, pkg/scheduler/framework/preemption.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Binding, Namespace, Node, ObjectReference, Pod, PodCondition, PodSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import condition_patch, is_terminal, pod_label
from pykubelet.api.scheduling import NODE_NAME_FIELD
from pykubelet.api.scheme import NAMESPACES, NODES, POD_BINDINGS, PODS
from pykubelet.client.indexer import PodIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Writer
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.scheduler.cache import PodInfo, SchedulerCache, new_pod_info, pod_priority
from pykubelet.scheduler.filters import ClusterEvent, FilterStatus, run_filters, run_pre_filters
from pykubelet.scheduler.scheduling_queue import SchedulingQueue
from pykubelet.scheduler.scores import select_host

NO_NODES = "no nodes available to schedule pods"
_TERMS_CONFLICT = "pod affinity terms conflict"
_NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
_NO_VICTIMS = "No preemption victims found for incoming pod"
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_NOT_SUPPORTED = "Preemption is not supported"
_NEVER = "not eligible due to preemptionPolicy=Never."


@dataclass(frozen=True, slots=True)
class FitError:
    """No node takes the pod."""

    message: str
    help: frozenset[ClusterEvent]
    """Changes after which to try again."""


def schedule_pod(facts: PodInfo, view: SchedulerCache) -> str | FitError:
    """The name of the best node for a pod, or why there is none."""
    if not view.nodes:
        return FitError(NO_NODES, frozenset({ClusterEvent.NODE}))
    named = required_node_names(facts.pod.spec)
    if named is not None and not named:
        return FitError(_message(facts, view, {}, _TERMS_CONFLICT), frozenset())
    question = run_pre_filters(facts, view)
    candidates = view.nodes if named is None else {name: view.nodes[name] for name in sorted(named & set(view.nodes))}
    refusals = {
        name: found for name, state in candidates.items() if (found := run_filters(question, state)) is not None
    }
    fitting = [state for name, state in candidates.items() if name not in refusals]
    if fitting:
        return select_host(facts, fitting, view)
    help_ = frozenset({ClusterEvent.NODE}).union(*(each.help for each in refusals.values()))
    return FitError(_message(facts, view, refusals), help_)


def required_node_names(spec: PodSpec) -> frozenset[str] | None:
    """The nodes that a pod's required affinity names, as that of a DaemonSet's pod does; None if any may do."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None or not required.node_selector_terms:
        return None
    found = frozenset[str]()
    for term in required.node_selector_terms:
        lists = [
            frozenset(one.values) for one in term.match_fields if (one.key, one.operator) == (NODE_NAME_FIELD, "In")
        ]
        if not lists:
            return None
        found |= frozenset.intersection(*lists)
    return found


def _message(facts: PodInfo, view: SchedulerCache, refusals: Mapping[str, FilterStatus], first: str = "") -> str:
    count = len(view.nodes)
    reasons = Counter(reason for each in refusals.values() for reason in each.reasons)
    reasons[_NOT_NAMED] += count - len(refusals)
    told = f"0/{count} nodes are available: {first or _histogram(reasons)}."
    if facts.pod.spec.preemption_policy == "Never":
        return f"{told} preemption: {_NEVER}"
    return f"{told} preemption: 0/{count} nodes are available: {_histogram(_preemption(facts, view, refusals))}."


def _preemption(facts: PodInfo, view: SchedulerCache, refusals: Mapping[str, FilterStatus]) -> Counter[str]:
    """What could be had by sending other pods away, for each node."""
    reasons, priority = Counter[str](), pod_priority(facts.pod)
    for name, each in refusals.items():
        if each.is_resolvable:
            has_victims = any(pod_priority(other.pod) < priority for other in view.nodes[name].pods.values())
            reasons[_NOT_SUPPORTED if has_victims else _NO_VICTIMS] += 1
    reasons[_NOT_HELPFUL] = len(view.nodes) - reasons.total()
    return reasons


def _histogram(reasons: Counter[str]) -> str:
    # Sorted as texts, numbers and all, as upstream has it.
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))


log = get_logger(__name__)

SCHEDULER_NAME = "default-scheduler"
"""Whose pods these are, and who tells the events."""
_MAX_NOTE = 1024


class Scheduler:
    """Schedules pods. Changes only note what was seen; `process_next` acts."""

    def __init__(self, *, client: Writer, recorder: EventRecorder, pods: PodIndex, clock: Clock) -> None:
        """The recorder is that of SCHEDULER_NAME, the index that of the informers."""
        self._client, self._recorder, self._pods, self._clock = client, recorder, pods, clock
        self._view = SchedulerCache()
        self._pending = SchedulingQueue(clock)
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
            self._placed(pod, ClusterEvent.POD_CAME)
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
            self._placed(
                new,
                *((ClusterEvent.POD_CAME, ClusterEvent.POD_GONE) if old.spec.node_name else (ClusterEvent.POD_CAME,)),
            )
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
        self._pending.helped(ClusterEvent.NODE)

    def node_updated(self, old: Node, new: Node) -> None:
        """A node has changed; heartbeats help nobody."""
        self._view.put_node(new)
        if _place(old) != _place(new):
            self._pending.helped(ClusterEvent.NODE)

    def node_deleted(self, node: Node) -> None:
        """A node is gone, which makes the pods on the others more evenly spread."""
        self._view.drop_node(node.metadata.name)
        self._pending.helped(ClusterEvent.NODE)

    def namespace_added(self, namespace: Namespace) -> None:
        """A namespace is new, or its labels have changed: affinities may select pods by them."""
        self._view.put_namespace(namespace.metadata.name, namespace.metadata.labels)
        self._pending.helped(ClusterEvent.POD_CAME)

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
        decision = schedule_pod(new_pod_info(pod), self._view)
        if isinstance(decision, FitError):
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

    def _placed(self, pod: Pod, *helps: ClusterEvent) -> None:
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
            self._pending.helped(ClusterEvent.POD_GONE)

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
