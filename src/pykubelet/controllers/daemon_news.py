"""What DaemonSets hear of: which change wakes which set, and which expectation it fulfils.

In: changes, told after the indexes have been brought up to date. Out: keys in a queue.
Upstream: the event handlers of pkg/controller/daemon/daemon_controller.go.
"""

from pykubelet.api.generated.apps import ControllerRevision, DaemonSet
from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.typed import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS, ApiObject
from pykubelet.controllers.daemon_plan import node_fit
from pykubelet.controllers.expectations import CountingExpectations
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.object_index import ObjectIndex, key_of, manager_of
from pykubelet.controllers.pod_order import ready_condition
from pykubelet.controllers.work_queue import WorkQueue


class DaemonNews:
    """Handlers that only note and queue."""

    def __init__(self, *, sets: ObjectIndex[DaemonSet], expectations: CountingExpectations, queue: WorkQueue) -> None:
        self._sets, self._expectations, self._queue = sets, expectations, queue

    def listen(self, informers: Informers) -> None:
        """Hear of every change of sets, pods, nodes and revisions."""
        informers.tell(DAEMON_SETS, added=self.set_added, updated=self.set_updated, deleted=self.set_deleted)
        informers.tell(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)
        informers.tell(NODES, added=self.node_added, updated=self.node_updated, deleted=self.node_deleted)
        informers.tell(
            CONTROLLER_REVISIONS,
            added=self.revision_added,
            updated=self.revision_updated,
            deleted=self.revision_deleted,
        )

    def set_added(self, daemon_set: DaemonSet) -> None:
        """A set is new."""
        self._queue.add(key_of(daemon_set))

    def set_updated(self, old: DaemonSet, new: DaemonSet) -> None:
        """A set has changed, or another one has taken its name."""
        if old.metadata.uid != new.metadata.uid:
            self.set_deleted(old)
        self._queue.add(key_of(new))

    def set_deleted(self, daemon_set: DaemonSet) -> None:
        """A set is gone; a new one of its name starts clean."""
        self._expectations.forget(key_of(daemon_set))
        self._queue.add(key_of(daemon_set))

    def pod_added(self, pod: Pod) -> None:
        """A pod is new to us. One that is being deleted already was never the creation we wait for."""
        if pod.metadata.deletion_timestamp is not None:
            self.pod_deleted(pod)
        elif manager_of(pod) is None:
            self._wake_selecting(pod)
        elif daemon_set := self._manager(pod):
            self._expectations.creation_observed(key_of(daemon_set))
            self._queue.add(key_of(daemon_set))

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """A pod has changed."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if new.metadata.deletion_timestamp is not None:
            self.pod_deleted(new)
            return
        self._wake_changed(old, new)
        daemon_set = self._manager(new)
        if daemon_set is None or daemon_set.spec.min_ready_seconds <= 0:
            return
        if ready_condition(old) is None and ready_condition(new) is not None:
            self._queue.add_after(key_of(daemon_set), daemon_set.spec.min_ready_seconds)

    def pod_deleted(self, pod: Pod) -> None:
        """A pod is gone or being deleted; nobody waits for that of an orphan."""
        if daemon_set := self._manager(pod):
            self._expectations.deletion_observed(key_of(daemon_set))
            self._queue.add(key_of(daemon_set))

    def node_added(self, _node: Node) -> None:
        """A node is new; it may even have pods that belong elsewhere."""
        for daemon_set in self._sets.all():
            self._queue.add(key_of(daemon_set))

    def node_updated(self, old: Node, new: Node) -> None:
        """A node has changed; most changes are heartbeats and mean nothing to sets."""
        if (old.metadata.labels, old.spec.taints) == (new.metadata.labels, new.spec.taints):
            return
        for daemon_set in self._sets.all():
            if node_fit(daemon_set, old) != node_fit(daemon_set, new):
                self._queue.add(key_of(daemon_set))

    def node_deleted(self, node: Node) -> None:
        """A node is gone; sets want one pod less, and one that never got there is nobody's."""
        for daemon_set in self._sets.all():
            if node_fit(daemon_set, node).may_stay:
                self._queue.add(key_of(daemon_set))

    def revision_added(self, revision: ControllerRevision) -> None:
        """A revision is new; nobody waits for those that sets have made."""
        if manager_of(revision) is None:
            self._wake_selecting(revision)

    def revision_updated(self, old: ControllerRevision, new: ControllerRevision) -> None:
        """A revision has changed."""
        if old.metadata.resource_version != new.metadata.resource_version:
            self._wake_changed(old, new)

    def revision_deleted(self, revision: ControllerRevision) -> None:
        """A revision is gone; the present one is made again."""
        if daemon_set := self._manager(revision):
            self._queue.add(key_of(daemon_set))

    def _wake_changed(self, old: ApiObject, new: ApiObject) -> None:
        """Wake who manages the object and who did, or who may adopt it now."""
        manager_changed = manager_of(old) != manager_of(new)
        if manager_changed and (former := self._manager(old)):
            self._queue.add(key_of(former))
        if manager_of(new) is None:
            if manager_changed or old.metadata.labels != new.metadata.labels:
                self._wake_selecting(new)
        elif daemon_set := self._manager(new):
            self._queue.add(key_of(daemon_set))

    def _manager(self, obj: ApiObject) -> DaemonSet | None:
        return self._sets.resolve(obj.metadata.namespace, manager_of(obj))

    def _wake_selecting(self, orphan: ApiObject) -> None:
        """An orphan may be adopted by any set that selects it."""
        for daemon_set in self._sets.selecting(orphan, lambda one: one.spec.selector):
            self._queue.add(key_of(daemon_set))
