"""The scheduler: takes unscheduled pods one by one and binds each to the best node that fits.

Informer events update the cache and the queue. `Scheduler.process_next` takes a pod, `schedule_pod` filters and scores
the nodes, and a Binding is created; a pod that fits nowhere gets the condition PodScheduled=False with upstream's
message. No await happens between the decision and assuming the pod in the cache, so concurrent workers never assign the
same resources twice. Where the deletion of less important pods makes room, they are deleted, and the pod is nominated to
their node until it is scheduled.

Upstream: pkg/scheduler/schedule_one.go, pkg/scheduler/scheduler.go, pkg/scheduler/eventhandlers.go,
pkg/scheduler/framework/types.go
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import (
    Binding,
    Namespace,
    Node,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
    PodSpec,
)
from pykubelet.api.generated.meta import DeleteOptions, ObjectMeta, Preconditions
from pykubelet.api.generated.policy import PodDisruptionBudget
from pykubelet.api.generated.storage import StorageClass
from pykubelet.api.pods import condition_patch, is_terminal, pod_label
from pykubelet.api.scheduling import NODE_NAME_FIELD
from pykubelet.api.scheme import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_BINDINGS,
    PODS,
    STORAGE_CLASSES,
)
from pykubelet.api.volumes import pod_claims
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Writer
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.scheduler.cache import NodeInfo, PodInfo, SchedulerCache, new_pod_info
from pykubelet.scheduler.filters import (
    ClusterEvent,
    CycleState,
    FilterStatus,
    RetryEvent,
    VolumeNeeds,
    run_filters,
    run_pre_filters,
)
from pykubelet.scheduler.nominator import Nominator
from pykubelet.scheduler.preemption import (
    BY_SCHEDULER,
    DISRUPTION_TARGET,
    Preemption,
    PreemptionCandidate,
    histogram,
    preempt,
)
from pykubelet.scheduler.scheduling_queue import SchedulingQueue
from pykubelet.scheduler.scores import select_host
from pykubelet.scheduler.volumebinding import ClaimKey, PodVolumeClaims, VolumeBinder

log = get_logger(__name__)
NO_NODES = "no nodes available to schedule pods"
_TERMS_CONFLICT = "pod affinity terms conflict"
_NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
SCHEDULER_NAME = "default-scheduler"
"""The `spec.schedulerName` this scheduler serves, and the source of its events."""
_MAX_NOTE = 1024
BIND_TIMEOUT_SECONDS = 600.0
"""Upstream's time for volumes to be bound, after which the failure is reported."""


@dataclass(frozen=True, slots=True)
class FitError:
    """No node fits the pod."""

    message: str
    retry_on: frozenset[RetryEvent]
    """The cluster events after which the pod is tried again."""
    cycle_state: CycleState | None = None
    """None if preemption cannot help, because there are no nodes."""
    statuses: Mapping[str, FilterStatus] = field(default_factory=dict[str, FilterStatus])


class Scheduler:
    """Schedules pods. Event handlers only record changes; `process_next` acts."""

    def __init__(
        self,
        *,
        client: Writer,
        recorder: EventRecorder,
        pods: PodIndex,
        budgets: ObjectIndex[PodDisruptionBudget],
        clock: Clock,
    ) -> None:
        """`recorder` records as SCHEDULER_NAME; `pods` and `budgets` are the informers' indexes."""
        self._client, self._recorder, self._clock = client, recorder, clock
        self._pods, self._budgets, self._nominator = pods, budgets, Nominator()
        self._cache = SchedulerCache()
        self._queue = SchedulingQueue(clock)
        self._bound: set[str] = set()
        self._volumes = VolumeBinder(client)
        self._binding_volumes: dict[str, float] = {}
        """The UIDs of pods whose node is chosen and whose claims are being bound, with the time when that started."""

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)
        informers.add_event_handler(NODES, added=self.node_added, updated=self.node_updated, deleted=self.node_deleted)
        informers.add_event_handler(
            NAMESPACES,
            changed=self.namespace_changed,
            deleted=lambda old: self._cache.drop_namespace(old.metadata.name),
        )

        informers.add_event_handler(PERSISTENT_VOLUME_CLAIMS, changed=self.claim_changed, deleted=self.claim_deleted)
        informers.add_event_handler(PERSISTENT_VOLUMES, changed=self.volume_changed, deleted=self._volumes.drop_volume)
        informers.add_event_handler(STORAGE_CLASSES, changed=self.class_changed, deleted=self._volumes.drop_class)

    def pod_added(self, pod: Pod) -> None:
        """Caches an assigned pod, or queues one that needs a node."""
        if pod.spec.node_name:
            self._assigned(pod, ClusterEvent.POD_ADDED)
        elif is_schedulable(pod):
            if pod.status.nominated_node_name:
                self._nominator.put(pod, pod.status.nominated_node_name)
            self._queue.add(pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Updates cache and queue; a different UID means that another pod has taken the name."""
        if old.metadata.uid != new.metadata.uid:
            self.pod_deleted(old)
            self.pod_added(new)
        elif new.spec.node_name:
            self._queue.delete(pod_label(new))
            # A pod assigned before may request less now, or no longer count for others.
            freed = (ClusterEvent.POD_REMOVED,) if old.spec.node_name else ()
            self._assigned(new, ClusterEvent.POD_ADDED, *freed)
        elif not is_schedulable(new):
            self.pod_deleted(new)
        elif (old.spec, old.metadata.labels) != (new.spec, new.metadata.labels):
            # A change of status alone is usually our own condition.
            self._queue.add(new)

    def pod_deleted(self, pod: Pod) -> None:
        self._queue.delete(pod_label(pod))
        self._nominator.drop(pod.metadata.uid)
        self._removed(pod.metadata.uid)

    def node_added(self, node: Node) -> None:
        """Adds a node and retries the pods that may fit on it."""
        self._cache.put_node(node)
        self._queue.move_on_event(ClusterEvent.NODE)

    def node_updated(self, old: Node, new: Node) -> None:
        """Updates a node; heartbeats alone do not retry pods."""
        self._cache.put_node(new)
        if _scheduling_fields(old) != _scheduling_fields(new):
            self._queue.move_on_event(ClusterEvent.NODE)

    def node_deleted(self, node: Node) -> None:
        """Removes a node, which may make the pods on the others more evenly spread."""
        self._cache.drop_node(node.metadata.name)
        self._queue.move_on_event(ClusterEvent.NODE)

    def namespace_changed(self, namespace: Namespace) -> None:
        """Records the labels of a namespace, which affinity terms may select."""
        self._cache.put_namespace(namespace.metadata.name, namespace.metadata.labels)
        self._queue.move_on_event(ClusterEvent.POD_ADDED)

    def claim_changed(self, claim: PersistentVolumeClaim) -> None:
        """Records a claim and retries the pods that wait for it."""
        self._volumes.put_claim(claim)
        self._queue.move_on_event(ClaimKey(claim.metadata.namespace, claim.metadata.name))

    def claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        self._volumes.drop_claim(claim)
        self._queue.move_on_event(ClaimKey(claim.metadata.namespace, claim.metadata.name))

    def volume_changed(self, volume: PersistentVolume) -> None:
        self._volumes.put_volume(volume)
        self._queue.move_on_event(ClusterEvent.VOLUME)

    def class_changed(self, storage_class: StorageClass) -> None:
        self._volumes.put_class(storage_class)
        self._queue.move_on_event(ClusterEvent.VOLUME)

    async def process_next(self) -> None:
        key = await self._queue.get()
        pod = self._pods.get(key)
        try:
            if pod is not None and is_schedulable(pod) and pod.metadata.uid not in self._bound:
                await self._schedule_or_retry(pod)
        finally:
            self._queue.done(key)

    async def _schedule_or_retry(self, pod: Pod) -> None:
        try:
            await self._schedule(pod)
        except Exception as error:  # noqa: BLE001  an error with one pod must not stop the others
            log.error("scheduling failed", error=error, pod=pod_label(pod))
            self._queue.retry(pod)

    async def _schedule(self, pod: Pod) -> None:
        meta = pod.metadata
        if meta.uid in self._binding_volumes:
            # Its room stays taken: this attempt chooses the node of its volumes again.
            self._cache.drop_pod(meta.uid)
        else:
            # Removes what an earlier attempt assumed, whose Binding may have been lost.
            self._removed(meta.uid)
        claims = self._volumes.find_claims(pod)
        decision = self._decide(pod, claims)
        if isinstance(decision, FitError):
            if self._binding_volumes.pop(meta.uid, None) is not None:
                self._queue.move_on_event(ClusterEvent.POD_REMOVED)
            self._queue.add_unschedulable(pod, decision.retry_on)
            await self._post_filter(pod, decision)
            return
        self._nominator.drop(meta.uid)
        self._cache.put_pod(pod, decision)
        try:
            if isinstance(claims, PodVolumeClaims) and claims.delayed:
                await self._bind_volumes(pod, claims, decision)
                return
            self._binding_volumes.pop(meta.uid, None)
            await self._bind(pod, decision)
        except NotFound:
            self._removed(meta.uid)
        except ApiError as error:
            # The pod may be bound nevertheless: it stays assumed, and its condition unchanged.
            self._queue.retry(pod)
            self._record_failure(pod, f'running Bind plugin "DefaultBinder": {error}')

    def _decide(self, pod: Pod, claims: PodVolumeClaims | str) -> str | FitError:
        """The best node for a pod, or why there is none."""
        pod_info, cache = new_pod_info(pod), self._cache
        if isinstance(claims, str):
            keys = frozenset(ClaimKey(pod.metadata.namespace, name) for _, name in pod_claims(pod))
            if not cache.nodes:
                return schedule_pod(pod_info, cache)
            return _refused(run_pre_filters(pod_info, cache), claims, keys)
        if not claims.keys:
            return schedule_pod(pod_info, cache, self._nominator)
        needs = VolumeNeeds(lambda node: self._volumes.plan(claims, node, cache.nodes), claims.exclusive)
        return schedule_pod(pod_info, cache, self._nominator, needs)

    async def _post_filter(self, pod: Pod, fit_error: FitError) -> None:
        """Preempts other pods for one that fits nowhere, if that helps, and reports what was decided."""
        done, state = Preemption(), fit_error.cycle_state
        if state is not None:
            done = preempt(state, fit_error.statuses, self._nominator, self._budgets.all())
        message = full_message(fit_error, done)
        outranked = list[Pod]()
        if done.candidate is not None:
            self._nominator.put(pod, done.candidate.node_name)
            outranked = self._nominator.outranked(pod, done.candidate.node_name)
        elif not done.keeps_nomination:
            self._nominator.drop(pod.metadata.uid)
        self._record_failure(pod, message)
        await self._update_condition(pod, message)
        try:
            for other in outranked:
                await self._clear_nomination(other)
            if done.candidate is not None:
                await self._delete_victims(pod, done.candidate)
        except ApiError as error:
            log.warning("preemption failed", pod=pod_label(pod), cause=str(error))
            self._queue.retry(pod)

    async def _delete_victims(self, pod: Pod, candidate: PreemptionCandidate) -> None:
        text = f"{SCHEDULER_NAME}: preempting to accommodate a higher priority pod"
        condition = PodCondition(type=DISRUPTION_TARGET, status="True", reason=BY_SCHEDULER, message=text)
        for victim in candidate.victims:
            meta = victim.metadata
            if meta.deletion_timestamp is not None:
                continue
            options = DeleteOptions(preconditions=Preconditions(uid=meta.uid))
            try:
                patch = condition_patch(victim, condition, self._clock.now())
                if patch is not None:
                    await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
                await self._client.delete(PODS, meta.name, namespace=meta.namespace, options=options)
            except NotFound:
                continue
            note = f"Preempted by pod {pod.metadata.uid} on node {candidate.node_name}"
            self._recorder.event(reference_to(victim), NORMAL, "Preempted", note)

    async def _clear_nomination(self, pod: Pod) -> None:
        """Has a pod of lower priority look for another node, because its place is taken."""
        meta = pod.metadata
        self._nominator.drop(meta.uid)
        patch = {"metadata": {"uid": meta.uid}, "status": {"nominatedNodeName": None}}
        with suppress(NotFound):
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
            self._queue.add(pod)

    async def _bind_volumes(self, pod: Pod, claims: PodVolumeClaims, node_name: str) -> None:
        """Has the claims of a pod bound for its node; the pod is tried again when one of them changes."""
        uid, now = pod.metadata.uid, self._clock.monotonic()
        started = self._binding_volumes.setdefault(uid, now)
        plan = self._volumes.plan(claims, self._cache.nodes[node_name].node, self._cache.nodes)
        try:
            await self._volumes.bind(plan, node_name)
        except ApiError as error:
            self._queue.retry(pod)
            self._record_failure(pod, f'running PreBind plugin "VolumeBinding": {error}')
            return
        if now - started >= BIND_TIMEOUT_SECONDS:
            self._binding_volumes[uid] = now
            message = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
            self._record_failure(pod, message)
            await self._update_condition(pod, message)
        newest = self._volumes.find_claims(pod)
        if isinstance(newest, PodVolumeClaims) and newest.delayed:
            self._queue.wait(pod, frozenset(claims.keys))
        else:
            self._queue.add(pod)

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

    def _record_failure(self, pod: Pod, message: str) -> None:
        note = message if len(message) <= _MAX_NOTE else f"{message[: _MAX_NOTE - 4]} ..."
        self._recorder.event(reference_to(pod), WARNING, "FailedScheduling", note)

    async def _update_condition(self, pod: Pod, message: str) -> None:
        """Writes PodScheduled=False and the nominated node; if that fails, the next attempt writes it."""
        condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
        patch, meta = condition_patch(pod, condition, self._clock.now()), pod.metadata
        nominated = self._nominator.node_of(pod)
        if nominated != pod.status.nominated_node_name:
            patch = patch or {"metadata": {"uid": meta.uid}, "status": {}}
            patch["status"]["nominatedNodeName"] = nominated or None
        if patch is None:
            return
        try:
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
        except NotFound:
            log.debug("PodScheduled condition not written: pod is gone", pod=pod_label(pod))
        except ApiError as error:
            log.warning("PodScheduled condition not written", pod=pod_label(pod), cause=str(error))

    def _assigned(self, pod: Pod, *events: ClusterEvent) -> None:
        """Caches an assigned pod; if that changes something, retries the pods waiting for these events."""
        self._bound.discard(pod.metadata.uid)
        self._binding_volumes.pop(pod.metadata.uid, None)
        self._nominator.drop(pod.metadata.uid)
        if is_terminal(pod.status.phase):
            self._removed(pod.metadata.uid)
        elif self._cache.put_pod(pod):
            for event in events:
                self._queue.move_on_event(event)

    def _removed(self, uid: str) -> None:
        self._bound.discard(uid)
        self._binding_volumes.pop(uid, None)
        if self._cache.drop_pod(uid):
            self._queue.move_on_event(ClusterEvent.POD_REMOVED)

    def _is_seen(self, pod: Pod) -> bool:
        """Whether the informer has already seen the binding."""
        newest = self._pods.get(pod_label(pod))
        return newest is None or newest.metadata.uid != pod.metadata.uid or bool(newest.spec.node_name)


def schedule_pod(
    pod_info: PodInfo, cache: SchedulerCache, nominator: Nominator | None = None, volumes: VolumeNeeds | None = None
) -> str | FitError:
    """Returns the name of the best node for a pod, or a FitError; `volumes` are those of a pod with claims."""
    if not cache.nodes:
        return FitError(NO_NODES, frozenset({ClusterEvent.NODE}))
    cycle_state = run_pre_filters(pod_info, cache, volumes)
    named = required_node_names(pod_info.pod.spec)
    if named is not None and not named:
        return _refused(cycle_state, _TERMS_CONFLICT, frozenset())
    candidates = (
        cache.nodes if named is None else {name: cache.nodes[name] for name in sorted(named & set(cache.nodes))}
    )
    nominator = nominator or Nominator()
    nominated = nominator.node_of(pod_info.pod)
    statuses, feasible = dict[str, FilterStatus](), list[NodeInfo]()
    for name, node_info in candidates.items():
        found = run_filters(cycle_state, node_info, nominator.rivals(pod_info.pod, name))
        if found is not None:
            statuses[name] = found
        elif name == nominated:
            return name
        else:
            feasible.append(node_info)
    if feasible:
        return select_host(pod_info, feasible, cache)
    retry_on = frozenset({ClusterEvent.NODE}).union(*(each.retry_on for each in statuses.values()))
    count = len(cache.nodes)
    reasons = Counter(reason for each in statuses.values() for reason in each.reasons)
    reasons[_NOT_NAMED] += count - len(statuses)
    message = f"0/{count} nodes are available: {histogram(reasons)}."
    return FitError(message, retry_on, cycle_state, statuses)


def full_message(fit_error: FitError, preemption: Preemption) -> str:
    """Why a pod fits nowhere, and why no preemption helps if none does."""
    return fit_error.message + (f" preemption: {preemption.message}" if preemption.message else "")


def _refused(cycle_state: CycleState, reason: str, retry_on: frozenset[RetryEvent]) -> FitError:
    """The error about a pod that no node can have whatever it is like."""
    return FitError(f"0/{len(cycle_state.cache.nodes)} nodes are available: {reason}.", retry_on, cycle_state)


def required_node_names(spec: PodSpec) -> frozenset[str] | None:
    """The nodes that required node affinity names, as for pods of a DaemonSet; None if it names none."""
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


def is_schedulable(pod: Pod) -> bool:
    """Whether a pod waits for this scheduler."""
    if pod.spec.scheduler_name != SCHEDULER_NAME or pod.spec.scheduling_gates:
        return False
    is_leaving = pod.metadata.deletion_timestamp is not None or is_terminal(pod.status.phase)
    return not pod.spec.node_name and not is_leaving


def _scheduling_fields(node: Node) -> tuple[object, ...]:
    """The fields of a node that decide which pods fit."""
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable, node.status.allocatable
