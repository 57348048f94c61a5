"""What the rest of the node may ask about the workers: the sole authority on what may run.

Pure. A pod that no worker knows is judged by whether all desired pods were named once: before that it may still come,
afterwards nothing of it may be left. Upstream: the query methods of PodWorkers in pkg/kubelet/pod_workers.go.
"""

from pykubelet.agent.flow import WorkerState
from pykubelet.agent.workers.machine import Machine
from pykubelet.api.keys import PodUid


class WorkerQueries:
    """Answers from the machine's records; nothing here waits or changes anything."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def state(self, uid: PodUid) -> WorkerState | None:
        """Where the worker of a pod is; None if there is none."""
        record = self._machine.records.get(uid)
        return record.state if record is not None else None

    def is_known_terminated(self, uid: PodUid) -> bool:
        """Whether a worker has seen the last container of this pod stop."""
        record = self._machine.records.get(uid)
        return record is not None and record.is_terminated

    def could_have_running_containers(self, uid: PodUid) -> bool:
        """Whether a container of this pod may be running."""
        record = self._machine.records.get(uid)
        return not record.is_terminated if record is not None else not self._machine.has_synced

    def is_termination_requested(self, uid: PodUid) -> bool:
        """Whether the pod was asked to end; it may still be starting."""
        record = self._machine.records.get(uid)
        return record is not None and record.is_terminating

    def should_containers_be_terminating(self, uid: PodUid) -> bool:
        """Whether nothing of this pod may be set up any more: its worker has seen that it is to end."""
        record = self._machine.records.get(uid)
        return record.acknowledged if record is not None else self._machine.has_synced

    def should_runtime_be_removed(self, uid: PodUid) -> bool:
        """Whether what running containers need, such as mounted volumes, may be taken away."""
        record = self._machine.records.get(uid)
        return record.is_terminated if record is not None else self._machine.has_synced

    def should_content_be_removed(self, uid: PodUid) -> bool:
        """Whether everything of the pod may be deleted: it was evicted, or is deleted and has ended."""
        record = self._machine.records.get(uid)
        if record is None:
            return self._machine.has_synced
        return record.evicted or (record.deleted and record.is_terminated)

    def should_be_finished(self, uid: PodUid) -> bool:
        """Whether the worker of this pod has nothing left to do."""
        record = self._machine.records.get(uid)
        return record.finished if record is not None else self._machine.has_synced

    def is_static_pod_terminating(self, full_name: str) -> bool:
        """Whether the static pod started under this name is being stopped; its mirror must outlive that."""
        holder = self._machine.turns.holder(full_name)
        record = self._machine.records.get(holder) if holder is not None else None
        return record is not None and record.is_terminating and not record.is_terminated
