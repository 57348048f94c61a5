"""The DaemonSet controller: one pod of a set on every node that should run it.

In: keys of sets to look at. Out: pods created and deleted through PodControl, the status of the set, events about
it. Upstream: pkg/controller/daemon/daemon_controller.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.apps import DaemonSet, DaemonSetStatus
from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.generated.meta import LabelSelector
from pykubelet.api.selector import selector_from_object
from pykubelet.api.typed import DAEMON_SETS
from pykubelet.controllers.daemon_backoff import FailedPodBackoff
from pykubelet.controllers.daemon_plan import (
    BURST_DAEMONS,
    Revision,
    count_status,
    node_fit,
    plan_node,
    pods_by_node,
    revision_of,
    stranded_pods,
    template_for,
)
from pykubelet.controllers.expectations import CountingExpectations
from pykubelet.controllers.object_index import ObjectIndex, key_of
from pykubelet.controllers.owner_access import OwnerClient, explicit, may_adopt, store_status
from pykubelet.controllers.ownership import PodOwnership, new_controller_ref
from pykubelet.controllers.pod_actions import AggregateError, PodActions, attempt_all
from pykubelet.controllers.pod_control import NAMESPACE_TERMINATING
from pykubelet.controllers.pod_index import PodIndex
from pykubelet.controllers.slow_start import slow_start_batch
from pykubelet.controllers.template_hash import template_hash
from pykubelet.controllers.work_queue import WorkQueue
from pykubelet.kube.recorder import NORMAL, WARNING, EventRecorder, reference_to

log = get_logger(__name__)

# The part of the status that is counted here; conditions and collisions are not.
_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberMisscheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
)


@dataclass(frozen=True, slots=True)
class DaemonView:
    """What the controller has seen of the cluster; kept up to date by who feeds it."""

    sets: ObjectIndex[DaemonSet]
    pods: PodIndex
    nodes: Mapping[str, Node]


@dataclass(frozen=True, slots=True)
class _Changes:
    """Nodes to create a pod for, and pods to delete."""

    create: Sequence[str]
    delete: Sequence[Pod]


class DaemonSetController:
    """Syncs DaemonSets by key."""

    def __init__(
        self,
        *,
        client: OwnerClient,
        pod_control: PodActions,
        recorder: EventRecorder,
        view: DaemonView,
        expectations: CountingExpectations,
        clock: Clock,
        burst: int = BURST_DAEMONS,
    ) -> None:
        self._client, self._pod_control, self._recorder, self._clock = client, pod_control, recorder, clock
        self._view, self._expectations, self._burst = view, expectations, burst
        self.queue = WorkQueue()
        self.failed_pods = FailedPodBackoff()

    async def process_next(self) -> None:
        """Sync the next key of the queue; a failure puts it back, later."""
        await self.queue.process_next(self.sync)

    async def sync(self, key: str) -> None:
        """Bring one set's pods closer to what it wants, and its status up to date.

        Raises what went wrong; the key is to be synced again then. Never twice at once for one key.
        """
        daemon_set = self._view.sets.get(key)
        if daemon_set is None:
            self._expectations.forget(key)
            return
        if daemon_set.spec.selector == LabelSelector():
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self._recorder.event(reference_to(daemon_set), WARNING, "SelectingAll", message)
            return
        if daemon_set.metadata.deletion_timestamp is not None:
            return
        short_hash = template_hash(daemon_set.spec.template, daemon_set.status.collision_count)
        revision = revision_of(daemon_set, short_hash)
        if not self._expectations.satisfied(key, now_seconds=self._clock.monotonic()):
            await self._report(daemon_set, revision, is_observed=False)
            return
        try:
            await self._manage(daemon_set, revision)
        except Exception:
            try:
                await self._report(daemon_set, revision, is_observed=True)
            except Exception as error:  # noqa: BLE001  what went wrong before matters more
                log.warning("status not written", set=key, cause=str(error))
            raise
        await self._report(daemon_set, revision, is_observed=True)

    async def _claimed(self, daemon_set: DaemonSet) -> dict[str, list[Pod]]:
        """The set's pods by node, after adopting and releasing."""
        ownership = PodOwnership(
            pod_control=self._pod_control,
            owner=daemon_set,
            selector=selector_from_object(daemon_set.spec.selector),
            can_adopt=may_adopt(self._client, DAEMON_SETS, daemon_set),
        )
        claimed = await ownership.claim_pods(self._view.pods.of_owner(daemon_set, with_orphans=True))
        if claimed.error is not None:
            raise claimed.error
        return pods_by_node(claimed.pods)

    async def _manage(self, daemon_set: DaemonSet, revision: Revision) -> None:
        """Create and delete pods until every node has what it should; AggregateError if some of it failed."""
        changes = self._plan(daemon_set, await self._claimed(daemon_set))
        create, delete = changes.create[: self._burst], changes.delete[: self._burst]
        now = self._clock.monotonic()
        self._expectations.set(key_of(daemon_set), add=len(create), delete=len(delete), now_seconds=now)
        errors = await self._create(daemon_set, create, revision)
        errors += await self._delete(daemon_set, delete)
        if errors:
            raise AggregateError(errors)

    def _plan(self, daemon_set: DaemonSet, by_node: Mapping[str, Sequence[Pod]]) -> _Changes:
        """What to do on all nodes; failed and succeeded pods are told as events."""
        create: list[str] = []
        delete: list[Pod] = []
        about, now = reference_to(daemon_set), self._clock.monotonic()
        for name, node in self._view.nodes.items():
            # Another generation of the set may well not fail, so it starts without a delay.
            where = f"{daemon_set.metadata.uid}/{daemon_set.status.observed_generation}/{name}"
            may_kill = not self.failed_pods.is_waiting(where, now)
            plan = plan_node(node_fit(daemon_set, node), by_node.get(name, ()), may_kill_failed=may_kill)
            if plan.create:
                create.append(name)
            if plan.failed is not None:
                self.failed_pods.start(where, now)
                message = f"Found failed daemon pod {key_of(plan.failed)} on node {name}, will try to kill it"
                self._recorder.event(about, WARNING, "FailedDaemonPod", message)
                delete.append(plan.failed)
            if plan.is_waiting:
                self.queue.add_after(key_of(daemon_set), self.failed_pods.delay_seconds(where))
            for pod in plan.succeeded:
                message = f"Found succeeded daemon pod {key_of(pod)} on node {name}, will try to delete it"
                self._recorder.event(about, NORMAL, "SucceededDaemonPod", message)
            delete += (*plan.succeeded, *plan.surplus)
        return _Changes(create, [*delete, *stranded_pods(by_node, self._view.nodes)])

    async def _create(self, daemon_set: DaemonSet, names: Sequence[str], revision: Revision) -> list[Exception]:
        """Create a pod for each node, slowly at first; what was not created is no longer expected."""
        namespace, reference = daemon_set.metadata.namespace, new_controller_ref(daemon_set)
        left, errors = iter(names), list[Exception]()

        async def create() -> None:
            template = template_for(daemon_set, next(left), revision)
            try:
                await self._pod_control.create_pods(namespace, template, daemon_set, reference)
            except Exception as error:
                # Nothing can be made in a namespace that goes away, and nothing needs to be.
                if isinstance(error, ApiError) and error.has_cause(NAMESPACE_TERMINATING):
                    return
                errors.append(error)
                raise

        created, _ = await slow_start_batch(len(names), create)
        self._expectations.lower(key_of(daemon_set), add=len(names) - created)
        return errors

    async def _delete(self, daemon_set: DaemonSet, pods: Sequence[Pod]) -> list[Exception]:
        control, namespace = self._pod_control, daemon_set.metadata.namespace
        outcomes = await attempt_all(control.delete_pod(namespace, pod.metadata.name, daemon_set) for pod in pods)
        errors = [error for error in outcomes if error is not None]
        self._expectations.lower(key_of(daemon_set), delete=len(errors))
        return [error for error in errors if not isinstance(error, NotFound)]

    async def _report(self, daemon_set: DaemonSet, revision: Revision, *, is_observed: bool) -> None:
        """Count anew and write the counts if they say something new; `is_observed`: this generation was acted on."""
        by_node = await self._claimed(daemon_set)
        status = count_status(daemon_set, self._view.nodes.values(), by_node, revision, self._clock.now())
        if status != daemon_set.status or daemon_set.status.observed_generation < daemon_set.metadata.generation:
            await store_status(self._client, DAEMON_SETS, daemon_set, _patch(daemon_set, status, is_observed))
        seconds = daemon_set.spec.min_ready_seconds
        if seconds > 0 and status.number_ready != status.number_available:
            self.queue.add_after(key_of(daemon_set), seconds)


def _patch(daemon_set: DaemonSet, status: DaemonSetStatus, is_observed: bool) -> dict[str, object]:
    document = explicit(status)
    patch = {name: document[name] for name in _COUNTS}
    return patch | {"observedGeneration": daemon_set.metadata.generation} if is_observed else patch
